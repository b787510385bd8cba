"""Members are mapped to nodes, ranks and cores without overlap."""

import sys
from collections import defaultdict
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.plan.mapping import Scale, map_members
from trainmark.spec.config import LaunchConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import (
    Plan,
    advise_on_idle,
    describe_scale,
    describe_slots,
    plan_as_json,
    plan_from_json,
)
from trainmark.spec.site import NodeGroup, Site, Slot


def site(nodes: int, slots: int, cores: int = 1) -> Site:
    places = tuple(Slot(cores=tuple(range(i * cores, (i + 1) * cores))) for i in range(slots))
    return Site(name="test", groups=(NodeGroup(prefix="n", count=nodes, slots=places),))


def plan(members: int, workers: int, place: Site, **launch: Any) -> Plan:
    return map_members(Scale(members, workers, members * workers), place, LaunchConfig(**launch))


def placed(found: Plan) -> list[list[tuple[str, tuple[int, ...]]]]:
    return [[(rank.node, rank.cores) for rank in job.ranks] for job in found.jobs]


def test_small_members_stand_side_by_side_on_a_node() -> None:
    found = plan(2, 2, site(nodes=1, slots=4, cores=2))
    assert placed(found) == [[("n1", (0, 1)), ("n1", (2, 3))], [("n1", (4, 5)), ("n1", (6, 7))]]
    assert (found.lanes, found.waves, found.idle_slots) == (2, 1, 0)


def test_workers_that_are_fewer_than_the_slots_of_a_node_share_all_of_its_cores() -> None:
    alone = plan(1, 1, site(nodes=1, slots=2))
    assert placed(alone) == [[("n1", (0, 1))]]
    assert (alone.system_scale, alone.idle_slots, alone.cores_used) == (1, 0, 2)
    # 2 members on 8 slots of 2 cores: neighbouring slots are merged, 4 for each.
    pair = plan(2, 1, site(nodes=1, slots=8, cores=2))
    assert placed(pair) == [[("n1", tuple(range(8)))], [("n1", tuple(range(8, 16)))]]
    together = plan(1, 2, site(nodes=1, slots=8, cores=2))
    assert placed(together) == [[("n1", tuple(range(8))), ("n1", tuple(range(8, 16)))]]


def test_members_get_equal_shares_of_cores_and_the_rest_stays_idle() -> None:
    found = plan(3, 1, site(nodes=1, slots=8))
    assert placed(found) == [[("n1", (0, 1))], [("n1", (2, 3))], [("n1", (4, 5))]]
    assert (found.idle_slots, found.cores, found.cores_used) == (2, 8, 6)
    # Also on the second node, where a member has room for itself: members are alike.
    assert placed(plan(3, 1, site(nodes=2, slots=2)))[2] == [("n2", (0,))]


def test_workers_with_a_number_of_threads_get_no_more_slots_than_these_fill() -> None:
    assert placed(plan(1, 1, site(nodes=1, slots=2), threads=1)) == [[("n1", (0,))]]
    assert placed(plan(1, 1, site(nodes=1, slots=8, cores=2), threads=3)) == [[("n1", (0, 1, 2, 3))]]


def test_slots_with_accelerators_shared_cores_or_in_slurm_are_not_merged() -> None:
    gpus = tuple(Slot(cores=(i,), accelerator=i) for i in range(2))
    with_gpus = Site(name="test", groups=(NodeGroup(prefix="n", slots=gpus),))
    one_core = Site(name="test", groups=(NodeGroup(prefix="n", slots=(Slot(cores=(0,)),) * 2, shared_cores=True),))
    for found in (plan(1, 1, with_gpus), plan(1, 1, one_core), plan(1, 1, site(1, 2), launcher="slurm")):
        assert placed(found) == [[("n1", (0,))]]
        assert found.idle_slots == 1


def test_a_plan_says_which_slots_and_cores_it_uses_and_how_to_use_the_others() -> None:
    def words(members: int, workers: int, slots: int, **launch: Any) -> tuple[str, str, str | None]:
        found = plan(members, workers, site(nodes=1, slots=slots), **launch)
        return describe_scale(found), describe_slots(found), advise_on_idle(found)

    alone = "1 member × 1 worker = system scale 1"
    assert words(1, 1, 2) == (alone, "1 of 2 worker slots used, all 2 cores", None)
    assert words(4, 2, 2) == ("4 members × 2 workers = system scale 8", "2 of 2 worker slots used, all 2 cores", None)
    assert words(1, 1, 1) == (alone, "1 of 1 worker slot used, all 1 core", None)
    scale, used, advice = words(3, 1, 4)
    assert (scale, used) == ("3 members × 1 worker = system scale 3", "3 of 4 worker slots used, 3 of 4 cores")
    assert advice is not None
    assert advice.startswith("1 of 4 worker slots stays idle: workers have 3 of 4 cores. To use all, choose --members")


def test_the_words_of_a_stored_plan_without_cores_leave_them_out() -> None:
    figures = {"members": 1, "workers_per_member": 1, "system_scale": 1, "lanes": 1, "idle_slots": 1}
    older = plan_from_json({**figures, "site": "test", "mapping": []})
    assert describe_slots(older) == "1 of 2 worker slots used"
    assert advise_on_idle(older) == (
        "1 of 2 worker slots stays idle. To use all, choose --members and --workers whose product is 2."
    )


def test_a_large_member_takes_whole_nodes_evenly() -> None:
    # 6 workers on nodes of 4 slots: 3 + 3, and the fourth slot of each stays idle.
    found = plan(1, 6, site(nodes=2, slots=4))
    assert [rank.node for rank in found.jobs[0].ranks] == ["n1", "n1", "n1", "n2", "n2", "n2"]
    assert [rank.rank_of_node for rank in found.jobs[0].ranks] == [0, 1, 2, 0, 1, 2]
    assert found.idle_slots == 2


def test_members_that_do_not_fit_queue_in_the_same_lanes() -> None:
    found = plan(5, 1, site(nodes=1, slots=2))
    assert [job.lane for job in found.jobs] == [0, 1, 0, 1, 0]
    assert (found.lanes, found.waves) == (2, 3)


def test_a_member_larger_than_the_site_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"A member of 3 workers does not fit: .* has 2 identical worker slots.*--workers 2"
    ):
        plan(1, 3, site(nodes=1, slots=2))


def test_a_plan_survives_its_json() -> None:
    found = plan(3, 2, site(nodes=2, slots=4, cores=3))
    assert plan_from_json(plan_as_json(found)) == found


@given(members=st.integers(1, 20), workers=st.integers(1, 12), nodes=st.integers(1, 6), slots=st.integers(1, 5))
def test_members_at_the_same_time_never_share_a_core(members: int, workers: int, nodes: int, slots: int) -> None:
    place = site(nodes, slots)
    if workers > slots and nodes < -(-workers // slots):
        with pytest.raises(PlanError):
            plan(members, workers, place)
        return
    found = plan(members, workers, place)
    lanes = defaultdict(set)
    for job in found.jobs:
        assert [rank.rank for rank in job.ranks] == list(range(workers))
        lanes[job.lane].add(tuple((rank.node, core) for rank in job.ranks for core in rank.cores))
    assert all(len(shapes) == 1 for shapes in lanes.values())  # a lane is always the same cores
    used = [core for shapes in lanes.values() for core in next(iter(shapes))]
    assert len(used) == len(set(used))
    assert found.idle_slots == place.num_slots - len(used)  # a slot is a core here
    assert found.cores_used == len(used)


def test_the_work_of_planning_grows_with_the_workers_and_not_with_their_square() -> None:
    def lines_run_for(nodes: int) -> int:
        place, lines = site(nodes=nodes, slots=8), 0

        def count(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal lines
            lines += 1
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            found = plan(nodes, 8, place)
        finally:
            sys.settrace(before)
        assert sum(len(job.ranks) for job in found.jobs) == 8 * nodes
        return lines

    # Ten times the workers: ten times the work, where each looking at all would be a hundred times.
    assert lines_run_for(1_000) < 11 * lines_run_for(100)
