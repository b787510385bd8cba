"""POP efficiencies of workers: load balance, communication and parallel efficiency, on events written out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.run_events import as_event
from tests.unit.written_events import written_member, written_pair, written_run
from trainmark.collect.compute import compute_metric, compute_metrics
from trainmark.collect.measured import Measured, Member
from trainmark.spec.events import EpochStop

NAMES = ["load_balance", "communication_efficiency", "parallel_efficiency"]


def waiting_pair(member: int, *waited_s: float, epoch_s: float = 10.0) -> Member:
    """A member whose workers each wait so long in an epoch of `epoch_s`."""
    return written_pair(member, *({"epoch_s": epoch_s, "waited_s": each} for each in waited_s))


def found(measured: Measured) -> list[float | None]:
    return [compute_metric(name, measured).value for name in NAMES]


def detail(name: str, measured: Measured) -> dict[str, Any]:
    found = compute_metric(name, measured).detail
    assert found is not None
    return found


def with_second_epoch(member: Member, *waited_s: float | None) -> Member:
    """The member, with another epoch of 10 s of each worker that has ended it."""
    events = []
    for of_rank, waited in zip(member.events, waited_s, strict=True):
        stop = as_event(kind="epoch_stop", wall_s=120.0, epoch=1, epoch_s=10.0, samples=400, harness_s=0.0)
        assert isinstance(stop, EpochStop)
        events.append(of_rank if waited is None else (*of_rank, stop.model_copy(update={"waited_s": waited})))
    return replace(member, events=tuple(events))


def test_the_efficiencies_of_two_workers_follow_from_their_useful_times() -> None:
    # Useful: 8 and 6 of 10 s. (8 + 6) / 2 / 8 = 0.875; 8 / 10 = 0.8; 0.875 × 0.8 = 0.7.
    measured = written_run(waiting_pair(0, 2.0, 4.0))
    assert found(measured) == pytest.approx([0.875, 0.8, 0.7])
    assert detail("parallel_efficiency", measured) == {
        "members": [{"member": 0, "value": pytest.approx(0.7), "useful_s": [8.0, 6.0], "run_s": 10.0}]
    }


def test_workers_that_never_wait_are_fully_efficient() -> None:
    assert found(written_run(waiting_pair(0, 0.0, 0.0))) == [1.0, 1.0, 1.0]


def test_useful_times_are_summed_over_epochs_so_that_turns_balance_out() -> None:
    # Useful: 8 + 6 s and 6 + 8 s of 20 s; each epoch for itself has a load balance of 0.875.
    member = with_second_epoch(waiting_pair(0, 2.0, 4.0), 4.0, 2.0)
    assert found(written_run(member, train={"epochs": 2})) == pytest.approx([1.0, 0.7, 0.7])


def test_an_epoch_that_one_worker_has_not_ended_is_left_out() -> None:
    member = with_second_epoch(waiting_pair(0, 2.0, 4.0), 9.0, None)
    assert found(written_run(member, train={"epochs": 2})) == pytest.approx([0.875, 0.8, 0.7])


def test_the_run_time_is_that_of_the_slowest_worker() -> None:
    # Workers of a parameter server do not wait for each other: 10 s and 8 s, all useful.
    member = written_pair(0, {"epoch_s": 10.0, "waited_s": 0.0}, {"epoch_s": 8.0, "waited_s": 0.0})
    assert found(written_run(member)) == pytest.approx([0.9, 1.0, 0.9])


def test_members_are_averaged_and_listed() -> None:
    # Parallel efficiencies 0.7 and 0.9; the mean of products, not the product of means 0.9375 × 0.85 = 0.797.
    measured = written_run(waiting_pair(0, 2.0, 4.0), waiting_pair(1, 1.0, 1.0))
    assert found(measured) == pytest.approx([(0.875 + 1) / 2, (0.8 + 0.9) / 2, 0.8])
    metric = compute_metric("parallel_efficiency", measured)
    assert metric.n == 2
    assert [each["value"] for each in detail("parallel_efficiency", measured)["members"]] == pytest.approx([0.7, 0.9])


@pytest.mark.parametrize("name", NAMES)
def test_one_worker_has_nobody_to_wait_for(name: str) -> None:
    assert compute_metric(name, written_run(written_member(0))).reason == "not applicable: one worker"


@pytest.mark.parametrize("name", NAMES)
def test_waits_that_cannot_be_measured_have_the_reason_of_the_communication_share(name: str) -> None:
    told = {"waited_s": None, "waited_reason": "streams"}
    measured = written_run(written_pair(0, {"waited_s": 1.0}, told))
    assert compute_metric(name, measured).reason == compute_metric("communication_share", measured).reason == "streams"


@pytest.mark.parametrize("name", NAMES)
def test_a_running_member_counts_once_all_its_workers_have_ended_an_epoch(name: str) -> None:
    member = replace(waiting_pair(0, 2.0, 4.0), state="running")
    behind = tuple(event for event in member.events[1] if not isinstance(event, EpochStop))
    early = written_run(replace(member, events=(member.events[0], behind)))
    assert compute_metrics(early, [name])[name].reason == "no member has trained a whole epoch so far"
    assert compute_metrics(written_run(member), [name])[name].value is not None
