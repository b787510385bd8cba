"""Members are mapped to nodes, ranks and cores without overlap."""

import time
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.plan.mapping import map_members
from trainmark.plan.scale import Scale
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Plan, plan_as_json, plan_from_json
from trainmark.spec.site import NodeGroup, Site, Slot


def site(nodes: int, slots: int, cores: int = 1) -> Site:
    places = tuple(Slot(cores=tuple(range(i * cores, (i + 1) * cores))) for i in range(slots))
    return Site(name="test", groups=(NodeGroup(prefix="n", count=nodes, slots=places),))


def plan(members: int, workers: int, place: Site) -> Plan:
    return map_members(Scale(members, workers, members * workers), place)


def placed(found: Plan) -> list[list[tuple[str, tuple[int, ...]]]]:
    return [[(rank.node, rank.cores) for rank in job.ranks] for job in found.jobs]


def test_small_members_stand_side_by_side_on_a_node() -> None:
    found = plan(2, 2, site(nodes=1, slots=4, cores=2))
    assert placed(found) == [[("n1", (0, 1)), ("n1", (2, 3))], [("n1", (4, 5)), ("n1", (6, 7))]]
    assert (found.lanes, found.waves, found.idle_slots) == (2, 1, 0)


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
    with pytest.raises(PlanError, match=r"A member of 3 workers does not fit: .* has 2 worker slots .*--workers 2"):
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
    assert found.idle_slots == place.num_slots - len(used)


def test_planning_100_000_workers_takes_well_under_a_second() -> None:
    place = site(nodes=12_500, slots=8)
    times = []
    for _ in range(3):
        start = time.process_time()
        found = plan(12_500, 8, place)
        times.append(time.process_time() - start)
    assert sum(len(job.ranks) for job in found.jobs) == 100_000
    assert min(times) < 0.8
