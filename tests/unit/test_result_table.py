"""A Result on a terminal says of each member what became of it."""

from rich.console import Console

from tests.unit.test_report_page import written_result
from trainmark.report.result_table import print_result
from trainmark.spec.result import MemberResult


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
