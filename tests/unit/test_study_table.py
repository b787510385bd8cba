"""A study's table for people: intervals beside values, parts that fit the terminal, long notes below it."""

import io

from rich.console import Console

from tests.unit.written_outcomes import outcomes, point
from trainmark.report.study_page import StudySection, study_page
from trainmark.report.study_table import print_study
from trainmark.spec.table import Table
from trainmark.studies.outcomes import PointOutcomes
from trainmark.studies.tables import build_table, metric, ratio

SPEED = "throughput_samples_per_s"
NAMES = (SPEED, "flops", "vflops", "step_time_s", "peak_memory_bytes", "quality_ensemble")


def at(batch: int, *factors: float) -> PointOutcomes:
    figures = dict(zip(NAMES, (3000, 31e12, 20e12, 0.5, 2**30, 0.5), strict=True))
    return point({"batch": batch}, [{name: value * factor for name, value in figures.items()} for factor in factors])


def table_of(*points: PointOutcomes) -> Table:
    return build_table(outcomes(*points), [metric(name) for name in NAMES], ["a finding"])


def printed(table: Table, width: int) -> list[str]:
    stream = io.StringIO()
    print_study(table, Console(file=stream, width=width))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_cells_have_the_interval_beside_the_value_with_one_unit_and_files_stay_as_they_are() -> None:
    table = table_of(at(32, 1, 0.9, 1.1), at(64, 1))
    several, single = table.lines()
    assert several[:7] == [
        "32",
        "3000 (2700 – 3300) samples/s",
        "31 (27.9 – 34.1) TFLOP/s",
        "20 (18 – 22) TFLOP/s",
        "500 (450 – 550) ms",
        "1 (0.9 – 1.1) GiB",
        "0.5 (0.45 – 0.55)",
    ]
    assert single[:3] == ["64", "3000 samples/s", "31 TFLOP/s"]
    assert table.as_csv().splitlines()[2].startswith("64,3000.0,,,31000000000000.0,,,")


def test_a_page_has_the_intervals() -> None:
    section = StudySection("id", "title", "", [], table_of(at(32, 1, 0.9, 1.1)), [], [])
    assert '<td class="number">3000 (2700 – 3300) samples/s</td>' in study_page([section])


def test_columns_that_do_not_fit_follow_below_with_the_axes_and_nothing_is_cut() -> None:
    points = at(32, 1, 0.9, 1.1), at(64, 2, 1.9, 2.1)
    for width in (60, 100, 120):
        lines = printed(table_of(*points), width)
        assert max(map(len, lines)) <= width
        text = "\n".join(lines)
        for cell in ("3000 (2700 – 3300) samples/s", "31 (27.9 – 34.1) TFLOP/s", "500 (450 – 550) ms", "20 %"):
            assert text.count(cell) == 1, (width, cell)
        rows = [line.split()[0] for line in lines if line.lstrip().startswith(("32 ", "64 "))]
        assert rows == ["32", "64"] * (len(rows) // 2) and len(rows) > 2
    assert "a finding" in lines


def test_long_notes_are_footnotes_that_equal_rows_share_and_short_ones_stay() -> None:
    missing = point({"batch": 128}, ["failed: rank 0 failed: no such file or directory"])
    lines = printed(build_table(outcomes(at(32, 1), missing, at(64, 1)), [metric(SPEED)]), 80)
    assert lines[:5] == [
        "batch  note      throughput  n  spread",
        "   32        3000 samples/s  1       –",
        "  128  [1]                –  0       –",
        "   64        3000 samples/s  1       –",
        "[1] failed: rank 0 failed: no such file or directory",
    ]
    short = build_table(outcomes(at(32, 1), point({"batch": 64}, ["stopped"])), [metric(SPEED)])
    assert printed(short, 80)[2].endswith("–  0       –  stopped")
    assert "note" not in printed(build_table(outcomes(at(32, 1)), [metric(SPEED)]), 80)[0]


def test_a_ratio_of_fewer_rounds_than_the_row_has_runs_says_so() -> None:
    base = point({"batch": 32}, [{SPEED: 10}, "killed", {SPEED: 10}])
    other = point({"batch": 64}, [{SPEED: 20}, {SPEED: 20}, {SPEED: 20}])
    measures = [metric(SPEED), ratio("speedup", SPEED, lambda each: base, "speed-up")]
    first, second = build_table(outcomes(base, other), measures).rows
    assert (second["n"], second["note"]) == (3, "speed-up: from 2 of 3 rounds")
    assert (first["n"], first["note"]) == (2, "1 of 3 runs missing: killed")


def test_a_table_without_rows_has_its_findings_and_caption() -> None:
    assert printed(Table(columns=(), rows=(), caption="none", findings=("nothing",)), 80)[-2:] == ["nothing", "none."]
