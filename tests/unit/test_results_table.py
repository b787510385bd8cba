"""The list of runs: every run has a row, whatever the width, and its id in the table is one that commands take."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_report_page import written_config, written_result
from trainmark.report.results_table import print_results, short_ids, shown_metrics
from trainmark.spec.result import Metric, Result
from trainmark.spec.run_facts import COLUMNS, facts_of, facts_without_result, row_of
from trainmark.spec.run_folder import matches_id
from trainmark.spec.tags import RunTags

IDS = [
    "20261115-090000-image-classification-abcd",
    "20261115-090001-image-classification-ef01",
    "20261115-090001-x-2345",
]


def metric(value: float) -> Metric:
    return Metric(value=value, unit="", better="higher", status="measured")


def result(**changes: Any) -> Result:
    config = written_config("train.precision=fp32")
    metrics = {
        "throughput_samples_per_s": metric(3319.0),
        "flops": metric(61.44e9),
        "flops_share_of_ceiling": metric(0.183),
        "quality_ensemble": metric(0.846),
        "vflops": metric(81.26e9),
        "time_to_train_all_s": metric(15.9),
    }
    return written_result(2, config=config, metrics=metrics, **changes)


def result_row(path: Path, result: Result | None, reason: str | None, tags: RunTags | None = None) -> dict[str, Any]:
    """The row of a run, with the metrics of the table."""
    tags = tags or RunTags()
    facts = facts_of(result, tags) if result else facts_without_result(reason or "", tags)
    names = [*COLUMNS, *shown_metrics()]
    return row_of(path.name, str(path), [facts.get(name) for name in names], names)


def row(run_id: str = IDS[0], **changes: Any) -> dict[str, Any]:
    return result_row(Path("/runs") / run_id, result(**changes), None)


def shown(rows: list[dict[str, Any]], width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    print_results(rows, IDS, "runs")
    lines: list[str] = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


def test_at_80_columns_a_row_has_size_model_precision_scale_state_and_the_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown([row()], 80, monkeypatch, capsys) == [
        "run             size model       prec. M×P state    samples   FLOPS quality",
        "20261115-090000 tiny resnet-tiny fp32  2×1 complete  3319/s 61.44 G   0.846",
        "Not shown at this width: workload, share, VFLOPS, TTTa. Widen the terminal, or",
        "add --json.",
    ]


def test_long_names_push_out_columns_and_are_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, first, *_ = shown([row(IDS[1], state="unfinished", size="a-size-of-a-plug-in")], 80, monkeypatch, capsys)
    assert head.split() == ["run", "model", "M×P", "state", "samples", "FLOPS", "quality"]
    assert first.split()[:4] == ["20261115-090001-ef01", "resnet-tiny", "2×1", "unfinished"]


def test_a_wide_table_has_everything_and_whole_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, first, *rest = shown([row()], 200, monkeypatch, capsys)
    names, speeds = "run workload size model prec. M×P state", "samples FLOPS share quality VFLOPS TTTa"
    assert " ".join(head.split()) == f"{names} {speeds}"
    names, speeds = (
        "image-classification tiny resnet-tiny fp32 2×1 complete",
        "3319/s 61.44 G 18.3 % 0.846 81.26 G 15.9 s",
    )
    assert " ".join(first.split()) == f"{IDS[0]} {names} {speeds}"
    assert rest == []


def test_a_run_that_cannot_be_read_has_a_row_and_its_reason_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = result_row(Path("/runs") / IDS[2], None, "plan.json is cut off")
    assert (broken["state"], broken["model"], broken["flops"]) == ("unreadable", None, None)
    assert broken["damage"] == ["plan.json is cut off"]
    assert shown([broken], 80, monkeypatch, capsys)[1].split() == ["20261115-090001-2345", "unreadable"]


def test_a_result_without_newer_metrics_has_a_row() -> None:
    old = result_row(Path("/runs") / IDS[0], written_result(2), None)
    assert (old["flops"], old["vflops"]) == (31.4e12, None)


def test_a_row_in_json_says_what_ran() -> None:
    names = ("run_id", "path", "size", "model", "dataset", "precision", "members", "workers", "system_scale")
    assert [row()[name] for name in names] == (
        [IDS[0], f"/runs/{IDS[0]}", "tiny", "resnet-tiny", "shapes", "fp32", 2, 1, 2]
    )


def test_short_ids_name_one_run_alone() -> None:
    assert short_ids(IDS, IDS) == [
        "20261115-090000",
        "20261115-090001-ef01",
        "20261115-090001-2345",
    ]
    assert short_ids(["mine"], ["mine", "mine-too"]) == ["mine"]
    for run_id, short in zip(IDS, short_ids(IDS, IDS), strict=True):
        assert [other for other in IDS if matches_id(other, short)] == [run_id]


def test_no_runs_and_no_matching_runs_are_said_apart(capsys: pytest.CaptureFixture[str]) -> None:
    print_results([], [], "runs")
    print_results([], IDS, "runs")
    assert capsys.readouterr().out == (
        "No runs in runs. Start one with: trainmark run\n"
        "None of the 3 runs in runs matches. Remove --workload, --state and --where to see them.\n"
    )


def test_tags_have_a_column_if_a_run_has_any(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged = result_row(Path("/runs") / IDS[0], result(), None, RunTags(tags=("baseline", "night")))
    head, first, second, *_ = shown([tagged, row(IDS[1])], 80, monkeypatch, capsys)
    assert head.split() == ["run", "model", "state", "tags", "samples", "FLOPS", "quality"]
    assert "complete baseline night" in first
    assert second.split()[:3] == ["20261115-090001-ef01", "resnet-tiny", "complete"]


def test_chosen_columns_are_shown_as_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_results([{**row(), "seed": 7, "note": "a\x1b[31mb"}], IDS, "runs", ["flops", "run_id", "seed", "note"])
    assert capsys.readouterr().out.splitlines() == [
        "  flops run_id                                    seed note",
        f"61.44 G {IDS[0]}    7 a\\x1b[31mb",
    ]


def test_ten_thousand_runs_get_short_ids_within_seconds() -> None:
    ids = [f"20261115-{second:06d}-w-{second:04x}" for second in range(10_000)]
    assert short_ids(ids, ids) == [run_id[:15] for run_id in ids]
