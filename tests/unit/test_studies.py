"""The mechanism of studies: axes, points, rounds, summaries, ratios, tables and records."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.written_outcomes import outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.slots import with_slots_of
from trainmark.report.drawing import Figure
from trainmark.report.study_progress import StudyProgress
from trainmark.spec.errors import ConfigError, PlanError, RunNotFoundError
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Column, Table
from trainmark.studies.axes import parse_values, powers_of_two
from trainmark.studies.make import Asked, make_study, write_study
from trainmark.studies.outcomes import summarise
from trainmark.studies.point import Point
from trainmark.studies.preview import expected_seconds, preview_lines
from trainmark.studies.record import StudyFolder, find_study, read_study
from trainmark.studies.study import Axis, Request, Study, nested
from trainmark.studies.tables import bars, best_row, build_table, curves, figure, heat_map, metric, ratio

SPEED = "throughput_samples_per_s"
HERE = Site(name="here", groups=(NodeGroup(slots=(Slot(cores=(min(os.sched_getaffinity(0)),)),)),))
BATCH = Axis("batch", "samples per step", lambda request: [8, 16], setting="train.batch_size")
NAME = Axis("precision", "precisions", lambda request: ["fp32"], kind=str)


def study(points: list[Point] | None = None, **changes: Any) -> Study:
    def of_axis(request: Request) -> list[Point]:
        return [
            Point(at={"batch": b}, settings={"train.batch_size": b, "ensemble.members": 1, "ensemble.workers": 1})
            for b in BATCH.values(request)
        ]

    known: dict[str, Any] = {
        "name": "probe",
        "title": "A probe",
        "description": "speed over batch",
        "documents": "none",
        "axes": (BATCH,),
        "points": of_axis if points is None else lambda request: points,
        "analyse": lambda found: build_table(found, [metric(SPEED)]),
        "figures": lambda table: list[Figure](),
        "settings": {"": {"dataset": "synthetic"}, "tiny": {"data.num_train": 256}},
        "repeats": 3,
    }
    return Study(**(known | changes))


def made(tmp_path: Path, chosen: Study | None = None, **asked: Any) -> Any:
    return make_study(chosen or study(), Asked(**asked), HERE, Places.of(tmp_path))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,4-8", (1, 2, 4, 5, 6, 7, 8)),
        ("3", (3,)),
        (" 1 , 1,2-3,3 ", (1, 2, 3)),
    ],
)
def test_an_axis_takes_lists_and_ranges_of_whole_numbers_each_once(text: str, values: tuple[int, ...]) -> None:
    assert parse_values(BATCH, text) == values


def test_names_are_split_at_commas_and_keep_their_hyphens() -> None:
    assert parse_values(NAME, "fp32,bf16-mixed") == ("fp32", "bf16-mixed")


@pytest.mark.parametrize("text", ["", "1,,2", "a", "8-4", "-3", "1.5", "1-100000"])
def test_values_that_are_none_are_refused_with_the_flag(text: str) -> None:
    with pytest.raises(ConfigError, match="--batch"):
        parse_values(BATCH, text)


def test_default_axes_double_up_to_the_machine() -> None:
    assert powers_of_two(8) == [1, 2, 4, 8]
    assert powers_of_two(6) == [1, 2, 4, 6]
    assert powers_of_two(1) == [1]


def test_below_six_repeats_the_interval_is_the_range_and_from_six_on_it_covers_the_median_with_95_percent() -> None:
    few = summarise([10.0, None, 12.0, 11.0])
    assert few == (11.0, 10.0, 12.0, 3, pytest.approx(2 / 11), 0)
    # n = 9: the second smallest and the second largest cover with 1 − 2·(1 + 9)/2⁹ = 96.1 %.
    many = summarise([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 100.0])
    assert many is not None and (many.value, many.low, many.high, many.n) == (5.0, 2.0, 8.0, 9)
    assert many.spread == pytest.approx(99 / 5)
    assert summarise([None]) is None


def test_ratios_are_taken_within_rounds_so_that_drift_cancels() -> None:
    # The machine is half as fast in round 2 and a third in round 3: the ratio stays 2.
    base, other = (
        point({"batch": 8}, [{SPEED: v} for v in (90, 45, 30)]),
        point({"batch": 16}, [{SPEED: v} for v in (180, 90, 60)]),
    )
    assert other.ratio(base, SPEED) == (2.0, 2.0, 2.0, 3, 0.0, 0)


def test_a_round_without_one_of_both_is_left_out_of_the_ratio() -> None:
    base, other = point({}, [{SPEED: 10}, "out of memory"]), point({}, [{SPEED: 30}, {SPEED: 99}])
    found = other.ratio(base, SPEED)
    assert found is not None and (found.value, found.n) == (3.0, 1)


def test_each_round_takes_every_point_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    points = [Point(at={"n": n}, settings={"train.batch_size": n, "ensemble.members": 1}) for n in range(1, 9)]
    record = made(tmp_path, study(points))
    orders = [[run.point for run in record.runs if run.round == round_] for round_ in (1, 2, 3)]
    assert [sorted(order) for order in orders] == [list(range(8))] * 3
    assert [run.round for run in record.runs] == sorted(run.round for run in record.runs)
    assert orders[0] != orders[1]
    again = made(tmp_path, study(points))
    assert [(run.point, run.round) for run in again.runs] == [(run.point, run.round) for run in record.runs]
    assert len({run.run_id for run in record.runs}) == 24


def test_a_point_that_cannot_run_is_kept_with_the_reason_and_the_others_run(tmp_path: Path) -> None:
    record = made(tmp_path, axes={"batch": (8, 100_000)})
    assert [planned.refused is None for planned in record.points] == [True, False]
    assert "batch size 100000" in (record.points[1].refused or "")
    assert {run.point for run in record.runs} == {0}
    assert list(tmp_path.iterdir()) == []


def test_a_study_none_of_whose_points_can_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="No point of the study probe can run"):
        made(tmp_path, axes={"batch": (100_000,)})


def test_a_setting_that_is_an_axis_is_refused_with_the_flag(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.batch_size is an axis of the study probe.*--batch 4"):
        made(tmp_path, sources=[Source("--set train.batch_size", {"train": {"batch_size": 4}})])


def test_an_axis_that_the_study_has_not_is_refused_with_those_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no axis --threads\. Its axes: --batch"):
        made(tmp_path, axes={"threads": (1,)})


def test_the_users_settings_win_over_the_studys_and_those_of_the_point_over_both(tmp_path: Path) -> None:
    record = made(tmp_path, sources=[Source("--set", {"data": {"num_train": 512}, "train": {"momentum": 0.5}})])
    assert record.base == {"dataset": "synthetic", "data": {"num_train": 512}, "train": {"momentum": 0.5}}
    assert record.points[0].point.settings["train.batch_size"] == 8


def test_settings_of_a_size_are_those_of_that_size() -> None:
    chosen = study(settings={"": {"a.b": 1}, "tiny": {"a.c": 2}, "full": {"a.c": 3}})
    assert nested(chosen.overrides("tiny")) == {"a": {"b": 1, "c": 2}}
    assert nested(chosen.overrides("full")) == {"a": {"b": 1, "c": 3}}
    shorter = study(settings={"tiny": {"a.c": 2}, "smallest": {"a.c": 1}})
    assert shorter.overrides("tiny", is_smallest=True) == {"a.c": 1}


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("threads", {"batch": (2,)}),
        ("hybrid", {"batch": (2,)}),
        ("weak-scaling", {"model": ("resnet34",)}),
    ],
)
def test_runs_as_long_as_the_documents_can_be_planned(tmp_path: Path, name: str, axes: dict[str, Any]) -> None:
    record = made(tmp_path, STUDIES.load(name), sources=[Source("--size full", {"size": "full"})], axes=axes)
    assert [planned.refused for planned in record.points] == [None]


def test_the_smallest_study_has_the_ends_of_each_axis_and_one_run_per_point(tmp_path: Path) -> None:
    wide = Axis("batch", "", lambda request: [4, 8, 16], setting="train.batch_size")
    chosen = study(axes=(wide,), points=None)
    record = made(tmp_path, chosen, is_smallest=True)
    assert record.axes == {"batch": (4, 16)}
    assert record.repeats == 1


def test_a_study_is_read_back_as_it_was_written_and_found_by_prefix(tmp_path: Path) -> None:
    record = made(tmp_path)
    folder = write_study(record, HERE, tmp_path)
    assert read_study(folder) == record
    assert find_study("latest", tmp_path) == find_study(record.study_id[:15], tmp_path) == folder
    assert find_study(str(folder.path), Path("/nowhere")) == folder
    with pytest.raises(RunNotFoundError, match="No study is called 'x'"):
        find_study("x", tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "trainmark.study/1"}', "\0"])
def test_a_damaged_record_is_named(tmp_path: Path, content: str) -> None:
    folder = StudyFolder(tmp_path / "studies" / "s")
    folder.path.mkdir(parents=True)
    folder.record.write_text(content)
    with pytest.raises(RunNotFoundError, match=r"study\.json cannot be read: "):
        read_study(folder)


def test_the_preview_says_points_runs_time_and_node_hours(tmp_path: Path) -> None:
    record = made(tmp_path, axes={"batch": (8, 100_000)})
    planned = record.points[0].model_copy(update={"seconds": (600.0, 1200.0), "nodes": 4})
    record = record.model_copy(update={"points": (planned, *record.points[1:])})
    assert expected_seconds(record) == (1800.0, 3600.0)
    lines = preview_lines(record)
    assert lines[0] == (
        "probe: 3 runs: 1 of 2 points × 3 repeats (1 point cannot run); 30 min 00 s to 1 h 00 min, 2 to 4 node-hours"
    )
    assert lines[1] == "  batch=8: 4 nodes, 10 min 00 s to 20 min 00 s per run"
    assert lines[2].startswith("  batch=100000: cannot run: ")
    assert "Choose" not in lines[2]  # options of a run, which a study may not have
    on_slurm = record.model_copy(update={"base": {**record.base, "launch": {"launcher": "slurm"}}})
    assert "; 30 min 00 s to 1 h 00 min one after another, less if Slurm starts several" in preview_lines(on_slurm)[0]
    assert preview_lines(made(tmp_path))[0].startswith("probe: 2 points × 3 repeats = 6 runs; ")


def test_jobs_of_unknown_speed_are_bounded_by_their_time_limit(tmp_path: Path) -> None:
    record = made(tmp_path)
    points = [
        planned.model_copy(update={"seconds": None, "limit_seconds": 1800.0, "nodes": nodes})
        for planned, nodes in zip(record.points, (1, 16), strict=True)
    ]
    bounded = record.model_copy(update={"points": tuple(points)})
    # 3 repeats × (1 + 16) nodes × half an hour
    assert preview_lines(bounded)[0] == (
        "probe: 2 points × 3 repeats = 6 runs; on up to 16 nodes; by the time limit of their jobs (30 min 00 s) at "
        "most 3 h 00 min one after another, 26 node-hours; --set train.minutes=… makes runs of a known length"
    )
    endless = bounded.model_copy(update={"points": tuple(p.model_copy(update={"limit_seconds": None}) for p in points)})
    assert preview_lines(endless)[0].endswith(
        "how long they take is known after the first run; --set train.minutes=… makes runs of a known length"
    )


def test_many_points_that_cannot_run_for_one_reason_are_one_line(tmp_path: Path) -> None:
    record = made(tmp_path, axes={"batch": (8, 100_001, 100_002, 100_003, 100_004)})
    _, eight, first, rest = preview_lines(record)
    assert eight.startswith("  batch=8: ") and first.startswith("  batch=100001: cannot run: ")
    assert rest == "  and 3 points more like it, up to batch=100004"


def test_slots_are_divided_anew_without_losing_nodes_cores_or_memory() -> None:
    group = NodeGroup(count=3, slots=(Slot(cores=(0, 1, 2)), Slot(cores=(3, 4, 5))), memory_gib_per_slot=12.0)
    site = with_slots_of(Site(name="s", groups=(group,)), 2)
    assert [slot.cores for slot in site.groups[0].slots] == [(0, 1), (2, 3), (4, 5)]
    assert (site.num_nodes, site.num_slots, site.groups[0].memory_gib_per_slot) == (3, 9, 8.0)
    assert with_slots_of(site, None) is site
    with pytest.raises(PlanError, match="7 cores does not fit"):
        with_slots_of(site, 7)
    accelerated = Site(name="g", groups=(NodeGroup(slots=(Slot(cores=(0,), accelerator=0),)),))
    with pytest.raises(PlanError, match="have accelerators"):
        with_slots_of(accelerated, 1)


def table() -> Table:
    return build_table(
        outcomes(
            point({"batch": 8, "threads": 1}, [{SPEED: 100}, {SPEED: 102}, {SPEED: 98}]),
            point({"batch": 8, "threads": 2}, [{SPEED: 150}, {SPEED: 250}, {SPEED: 180}]),
            point({"batch": 16, "threads": 1}, ["rank 0 failed: out of memory"] * 3),
            point({"batch": 16, "threads": 2}, [], refused="needs at least 9 GiB"),
        ),
        [metric(SPEED)],
        ["two threads are faster", None],
    )


def test_a_row_has_median_interval_n_and_spread_and_flags_a_spread_above_the_limit() -> None:
    first, second, *_ = table().rows
    assert (first[SPEED], first[f"{SPEED}_low"], first[f"{SPEED}_high"], first["n"]) == (100.0, 98.0, 102.0, 3)
    assert first["spread"] == pytest.approx(0.04) and first["note"] == ""
    assert second["spread"] == pytest.approx(100 / 180) and second["note"] == "spread 56% is above 10%"


def test_a_point_without_result_is_a_gap_with_its_reason() -> None:
    *_, failed, refused = table().rows
    assert (failed[SPEED], failed["n"], failed["note"]) == (None, 0, "rank 0 failed: out of memory")
    assert (refused[SPEED], refused["n"], refused["note"]) == (None, 0, "needs at least 9 GiB")


def test_files_of_a_table_hold_every_value_and_an_empty_field_per_gap() -> None:
    rows = list(csv.DictReader(io.StringIO(table().as_csv())))
    assert [row[SPEED] for row in rows] == ["100.0", "180.0", "", ""]
    assert Table.model_validate_json(table().as_json()) == table()


def test_people_see_units_headings_intervals_and_dashes_for_gaps() -> None:
    shown = dict(zip(table().headings(), zip(*table().lines(), strict=True), strict=True))
    assert shown["throughput"] == ("100 (98 – 102) samples/s", "180 (150 – 250) samples/s", "–", "–")
    assert "throughput_samples_per_s_low" not in shown


def test_curves_leave_gaps_out_and_carry_intervals() -> None:
    (only,) = curves(table(), "threads", SPEED, "batch")
    assert only.label == "batch 8"
    assert (only.x.tolist(), only.y.tolist()) == ([1, 2], [100, 180])
    assert only.low is not None and only.low.tolist() == [98, 150]


def test_bars_and_heat_maps_keep_gaps_as_gaps() -> None:
    drawn = bars(table(), "all", "batch", SPEED, threads=1)
    assert drawn.names == ("8", "16") and drawn.y[0] == 100 and np.isnan(drawn.y[1])
    cells = heat_map(table(), "speed", "threads", "batch", SPEED)
    assert cells.values[0].tolist() == [100, 180] and np.isnan(cells.values[1]).all()
    assert (cells.x_names, cells.y_names) == (("1", "2"), ("8", "16"))


def test_the_caption_of_a_figure_has_findings_gaps_flags_machine_and_n() -> None:
    drawn = figure(table(), "f", "F", "What it shows", [heat_map(table(), "speed", "threads", "batch", SPEED)])
    for part in (
        "What it shows.",
        "two threads are faster.",
        "batch=16 threads=1 (rank 0 failed: out of memory)",
        "Spread above the limit at: batch=8 threads=2.",
        "n = 3 per point",
    ):
        assert part in drawn.caption
    assert drawn.svg is not None and "<svg" in drawn.svg


def test_a_figure_without_any_value_says_so() -> None:
    empty = build_table(outcomes(point({"batch": 8}, ["stopped"])), [metric(SPEED)])
    drawn = figure(empty, "f", "F", "text", [heat_map(empty, "speed", "batch", "batch", SPEED)])
    assert drawn.svg is None and drawn.caption.startswith("Not shown: no point has a value.")


def test_the_best_row_is_the_largest_and_none_if_all_are_gaps() -> None:
    assert (best_row(table(), SPEED) or {})["threads"] == 2
    assert best_row(table(), SPEED, batch=16) is None


def test_a_column_of_ratios_has_one_at_its_base() -> None:
    found = outcomes(point({"t": 1}, [{SPEED: 4}]), point({"t": 2}, [{SPEED: 6}]))
    measures = [ratio("speedup", SPEED, lambda each: found.first(t=1), "speed-up")]
    assert [row["speedup"] for row in build_table(found, measures).rows] == [1.0, 1.5]


def test_the_time_left_is_that_measured_for_the_points_left_else_the_mean_else_the_estimate() -> None:
    progress = StudyProgress(console=_Silent())  # type: ignore[arg-type]
    assert progress.expected([0, 1], 60.0) == 60.0
    progress.ended(0, "done", 10.0, [0, 1], 60.0)
    assert progress.expected([0, 1], 60.0) == 20.0
    progress.ended(1, "done", 30.0, [0, 1], 60.0)
    assert progress.expected([0, 1, 2], 60.0) == 10 + 30 + 20


class _Silent:
    def print(self, *parts: object, **options: object) -> None:
        pass


def test_columns_that_are_not_shown_are_in_the_files_alone() -> None:
    small = Table(columns=(Column("a"), Column("b", is_shown=False)), rows=({"a": 1, "b": None},))
    assert small.headings() == ["a"] and small.lines() == [["1"]]
    assert small.as_csv() == "a,b\n1,\n"
    assert json.loads(small.as_json())["rows"] == [{"a": 1, "b": None}]
