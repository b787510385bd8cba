"""A Result on a terminal says of each member what became of it."""

from rich.console import Console

from tests.unit.test_report_page import written_result
from tests.unit.written_events import with_usage, written_member, written_run, written_sample
from trainmark.report.result_table import print_result
from trainmark.spec.registries import METRICS
from trainmark.spec.result import MemberResult, Metric, Result

FINISHED = MemberResult(member=0, state="finished", attempts=1, seed=0)


def shown(result: Result) -> str:
    console = Console(record=True, width=200)
    print_result(result, console)
    return console.export_text()


def measured_metrics() -> dict[str, Metric]:
    run = written_run(with_usage(written_member(0), written_sample(102.0, busy=0.9)))
    return {name: METRICS.load(name)(run) for name in METRICS}


def test_both_flops_and_both_utilisations_are_shown_and_what_was_not_watched() -> None:
    text = shown(written_result(metrics=measured_metrics(), members=[FINISHED]))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "FLOPS (Eq. 6) 10 kFLOP/s 1 exact convention; ai500: 9 kFLOP/s" in lines
    assert any(line.startswith("FLOPS, settled steps 10 kFLOP/s") for line in lines)
    assert "CPU utilisation 25 % 1 by the members' own processes; by all processes: 90 %" in lines
    (ceiling,) = [line for line in lines if line.startswith("ceiling (measured)")]
    assert ceiling.endswith("torch.mm 1024; load by others was not watched: the events are older than this check")


def test_a_result_of_an_earlier_version_is_shown_without_the_metrics_that_it_lacks() -> None:
    metrics = measured_metrics()
    del metrics["flops_steady"]
    text = shown(written_result(metrics=metrics, members=[FINISHED]))
    assert "FLOPS (Eq. 6)" in text
    assert "FLOPS, settled steps" not in text


def test_a_member_that_went_on_from_a_checkpoint_is_shown_as_restarted() -> None:
    console = Console(record=True, width=120)
    members = [
        MemberResult(member=0, state="running", attempts=1, seed=0),
        MemberResult(member=1, state="running", attempts=2, seed=1, restarted=True),
    ]
    print_result(written_result(members=members), console)
    rows = [line.split() for line in console.export_text().splitlines()]
    assert ["0", "running", "1", "0"] in rows
    assert ["1", "running,", "restarted", "2", "0"] in rows
