"""A Result on a terminal says what was trained, what was measured, and of each member what became of it."""

import re
from html import unescape

from rich.console import Console

from tests.unit.test_report_page import written_events as written_page_events
from tests.unit.test_report_page import written_plan, written_result
from tests.unit.written_events import with_staging, with_usage, written_member, written_run, written_sample
from trainmark.collect.compute import compute_metric, compute_metrics
from trainmark.report.page import report_page, run_section
from trainmark.report.result_table import print_result, scale_of
from trainmark.spec.registries import METRICS
from trainmark.spec.result import MemberResult, Metric, Result, unavailable

TRAINING = {
    "model": "resnet-tiny",
    "precision": "bf16",
    "batch_per_replica": 32,
    "workers_per_replica": 1,
    "global_batch": 64,
    "training_flop_per_sample": {"exact": 18.53e6, "ai500": 18.9e6},
}
STAGED = {"samples": 60, "bytes": 6000, "staging_s": 2.0, "reused": False}


def printed(result: Result, width: int = 250) -> str:
    console = Console(record=True, width=width)
    print_result(result, console)
    return console.export_text()


FINISHED = MemberResult(member=0, state="finished", attempts=1, seed=0)


def measured_metrics() -> dict[str, Metric]:
    run = written_run(with_usage(written_member(0), written_sample(102.0, busy=0.9)))
    return {name: compute_metric(name, run) for name in METRICS}


def test_both_flops_and_both_utilisations_are_shown_and_what_was_not_watched() -> None:
    text = printed(written_result(metrics=measured_metrics(), members=[FINISHED]))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "FLOPS (Eq. 6) 10 kFLOP/s 1 exact convention; ai500: 9 kFLOP/s" in lines
    assert any(line.startswith("FLOPS, steady state 10 kFLOP/s") for line in lines)
    assert "CPU utilisation 25 % 1 by the members' processes; by all processes: 90 %" in lines
    (ceiling,) = [line for line in lines if line.startswith("ceiling (measured)")]
    assert ceiling.endswith("; load by other processes is unknown: recorded by a version without this check")


def test_a_result_of_an_earlier_version_is_shown_without_the_metrics_that_it_lacks() -> None:
    metrics = measured_metrics()
    del metrics["flops_steady"]
    text = printed(written_result(metrics=metrics, members=[FINISHED]))
    assert "FLOPS (Eq. 6)" in text
    assert "FLOPS, steady state" not in text


def test_a_member_that_went_on_from_a_checkpoint_is_shown_as_restarted() -> None:
    members = [
        MemberResult(member=0, state="running", attempts=1, seed=0),
        MemberResult(member=1, state="running", attempts=2, seed=1, restarted=True),
    ]
    rows = [line.split() for line in printed(written_result(members=members)).splitlines()]
    assert ["0", "running", "1", "0"] in rows
    assert ["1", "running,", "restarted", "2", "0"] in rows


def test_the_head_says_scale_slots_model_precision_batch_and_flops_per_sample() -> None:
    plan = written_plan(members=1, workers=2, idle_slots=2)
    lines = printed(written_result(plan=plan, training=TRAINING)).splitlines()
    assert lines[1] == "1 member × 2 workers = system scale 2, 1 member at a time on A CPU: 2 of 4 worker slots used"
    assert (
        lines[2]
        == "resnet-tiny in bf16, batch 32 per worker, 64 global, 0.01853 GFLOP per sample (exact; ai500: 0.0189)"
    )
    pipeline = {**TRAINING, "workers_per_replica": 2, "training_flop_per_sample": None}
    lines = printed(written_result(plan=plan, training=pipeline)).splitlines()
    assert lines[2] == "resnet-tiny in bf16, batch 32 per 2 workers, 64 global"


def test_a_result_that_was_stored_without_these_facts_is_shown_without_them() -> None:
    lines = printed(written_result()).splitlines()
    assert lines[1] == "1 member × 1 worker = system scale 1, 1 member at a time on A CPU: 1 of 1 worker slot used"
    assert lines[2].startswith("metric")
    assert "1 member × 1 worker = system scale 1" in report_page([run_section(written_result(), {}, {})])


def test_everything_that_the_terminal_shows_is_on_the_page() -> None:
    whole = with_usage(with_staging(written_member(0), STAGED), written_sample(102.0))
    over = written_run(whole, launch={"stage": "local"})
    under_way = written_run(whole, written_member(1, state="running"), launch={"stage": "local"})
    figures = compute_metrics(over, ["throughput_samples_per_s", "flops"])
    members = [
        MemberResult(member=0, state="finished", attempts=1, seed=0, quality=0.75, epochs_done=1, metrics=figures),
        MemberResult(member=1, state="running", attempts=2, seed=1, restarted=True, epochs_done=1),
    ]
    for measured, state in ((over, "complete"), (under_way, "unfinished")):
        result = written_result(
            metrics=compute_metrics(measured, METRICS),
            members=members,
            state=state,
            training=TRAINING,
            warnings=["one warning", "another"],
        )
        page = report_page([run_section(result, {0: written_page_events()}, {})])
        shown = " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
        _, _, *lines = printed(result).splitlines()
        cells = {cell.removeprefix("! ") for line in lines for cell in re.split(r"\s{2,}", line.strip())}
        assert len(cells) > 60
        assert {cell for cell in cells if cell not in shown} == set()
        # The first two lines stand there as facts of their own.
        for fact in ("image-classification (tiny)", result.run_id, state, scale_of(result), "A CPU"):
            assert fact in shown
        assert ("so far, 2 of 2 members" in shown) == (state == "unfinished")


def test_on_a_narrow_terminal_notes_follow_the_table_of_metrics() -> None:
    ceiling = unavailable("FLOP/s", "higher", "not measured: measure.ceiling is false")
    finished = [MemberResult(member=0, state="finished", attempts=1, seed=0)]
    metrics = measured_metrics() | {"ceiling_flops": ceiling}
    for width, note in ((120, "not measured: measure.ceiling is false"), (80, "")):
        console = Console(record=True, width=width)
        print_result(written_result(members=finished, metrics=metrics), console)
        lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
        assert f"ceiling (measured) unavailable {note}".strip() in lines
        assert ("ceiling (measured): not measured: measure.ceiling is false" in lines) is (width == 80)
