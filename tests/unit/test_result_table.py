"""A Result on a terminal says of each member what became of it."""

from rich.console import Console

from tests.unit.test_report_page import written_result
from trainmark.report.result_table import ROWS, print_result
from trainmark.spec.result import MemberResult, unavailable


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


def test_on_a_narrow_terminal_notes_follow_the_table_of_metrics() -> None:
    ceiling = unavailable("FLOP/s", "higher", "not measured: measure.ceiling is false")
    finished = [MemberResult(member=0, state="finished", attempts=1, seed=0)]
    metrics = {name: unavailable("", "higher", "no member finished") for name, _ in ROWS} | {"ceiling_flops": ceiling}
    for width, note in ((120, "not measured: measure.ceiling is false"), (80, "")):
        console = Console(record=True, width=width)
        print_result(written_result(members=finished, metrics=metrics), console)
        lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
        assert f"ceiling (measured) unavailable {note}".strip() in lines
        assert ("ceiling (measured): not measured: measure.ceiling is false" in lines) is (width == 80)
