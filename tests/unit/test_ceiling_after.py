"""The ceiling after training is measured beside neighbours that are busy: they end training as well, or still train."""

import threading
import time
from pathlib import Path

import pytest

from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.train.ceiling import wait_for_neighbours


def plan_of(members: int, lanes: int, nodes: int = 1) -> Plan:
    """Members of one worker each; lanes are spread over the nodes."""
    ranks = [(Rank(0, f"node{lane % nodes}", lane // nodes, (lane // nodes,), None),) for lane in range(lanes)]
    jobs = tuple(Job(member, member % lanes, ranks[member % lanes]) for member in range(members))
    return Plan(members, 1, members, "test", lanes, lanes, lanes, 0, jobs)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def start(folder: RunFolder, member: int) -> AttemptFolder:
    attempt = folder.attempt(member, 1)
    attempt.path.mkdir(parents=True)
    return attempt


def are_busy(folder: RunFolder, plan: Plan, member: int, patience_s: float) -> bool:
    return wait_for_neighbours(folder, plan.jobs[member], folder.attempt(member, 1), plan, patience_s)


def test_members_that_end_one_after_the_other_measure_together(folder: RunFolder) -> None:
    plan = plan_of(2, lanes=2)
    start(folder, 0)
    start(folder, 1)
    ended: list[float] = []

    def first() -> None:
        assert are_busy(folder, plan, 0, patience_s=60)
        ended.append(time.monotonic())

    waiting = threading.Thread(target=first)
    waiting.start()
    time.sleep(0.3)
    came_s = time.monotonic()
    assert are_busy(folder, plan, 1, patience_s=60)
    waiting.join()
    assert ended[0] >= came_s  # the first one did not measure before the second had come


def test_a_neighbour_that_still_trains_is_waited_for_no_longer_than_patience_and_is_busy(folder: RunFolder) -> None:
    plan = plan_of(2, lanes=2)
    start(folder, 0)
    start(folder, 1)
    assert are_busy(folder, plan, 0, patience_s=0.1)


def test_beside_a_neighbour_that_has_gone_nothing_is_measured(folder: RunFolder) -> None:
    plan = plan_of(2, lanes=2)
    start(folder, 0).trained.write_text(repr(time.time() - 1))  # it waited until a second ago
    start(folder, 1)
    assert not are_busy(folder, plan, 1, patience_s=60)


def test_beside_a_neighbour_that_has_failed_nothing_is_measured(folder: RunFolder) -> None:
    plan = plan_of(2, lanes=2)
    start(folder, 0).exit.write_text("{}")
    start(folder, 1)
    assert not are_busy(folder, plan, 1, patience_s=60)


def test_a_lane_that_trains_its_next_member_is_busy(folder: RunFolder) -> None:
    plan = plan_of(3, lanes=2)
    start(folder, 0).exit.write_text("{}")
    start(folder, 1)
    start(folder, 2)
    assert are_busy(folder, plan, 1, patience_s=0.1)


def test_members_of_other_nodes_are_no_neighbours(folder: RunFolder) -> None:
    plan = plan_of(2, lanes=2, nodes=2)
    start(folder, 1)
    assert are_busy(folder, plan, 1, patience_s=60)
