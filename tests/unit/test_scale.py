"""Eq. 5 in all its forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.plan.mapping import solve_scale
from trainmark.spec.config import EnsembleChoices
from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site, Slot


def site(nodes: int = 1, slots: int = 2, accelerators: bool = False) -> Site:
    places = tuple(Slot(cores=(i,), accelerator=i if accelerators else None) for i in range(slots))
    return Site(name="test", groups=(NodeGroup(count=nodes, slots=places),))


def solve(
    place: Site, members: int | None = None, workers: int | None = None, scale: int | None = None
) -> tuple[int, ...]:
    return tuple(solve_scale(EnsembleChoices(members=members, workers=workers, system_scale=scale), place))


def test_any_two_give_the_third() -> None:
    assert solve(site(), members=4, workers=3) == (4, 3, 12)
    assert solve(site(), members=4, scale=12) == (4, 3, 12)
    assert solve(site(), workers=3, scale=12) == (4, 3, 12)
    assert solve(site(), members=4, workers=3, scale=12) == (4, 3, 12)


def test_a_contradiction_prints_the_product() -> None:
    with pytest.raises(PlanError, match=r"3 members × 2 workers = 6, but the system scale is 8.*--system-scale 6"):
        solve(site(), members=3, workers=2, scale=8)


def test_a_scale_that_does_not_divide_names_the_nearest_that_do() -> None:
    with pytest.raises(PlanError, match=r"12 is not divisible by 5 members.*--members 4 or 6"):
        solve(site(), members=5, scale=12)
    with pytest.raises(PlanError, match=r"7 is not divisible by 2 workers.*--workers 1 or 7"):
        solve(site(), workers=2, scale=7)


def test_one_machine_without_accelerators_trains_an_ensemble_by_default() -> None:
    assert solve(site(nodes=1, slots=2)) == (2, 1, 2)


def test_a_cluster_defaults_to_one_member_a_node() -> None:
    # AI500 §4.3: 8 nodes × 8 accelerators = 8 members × 8 workers.
    assert solve(site(nodes=8, slots=8, accelerators=True)) == (8, 8, 64)


def test_a_node_with_accelerators_defaults_to_one_member_on_all_of_them() -> None:
    assert solve(site(nodes=1, slots=4, accelerators=True)) == (1, 4, 4)


def test_members_alone_keep_the_default_workers() -> None:
    assert solve(site(nodes=1, slots=2), members=8) == (8, 1, 8)


def test_workers_alone_fill_the_site() -> None:
    assert solve(site(nodes=4, slots=2), workers=2) == (4, 2, 8)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_the_product_always_holds(members: int, workers: int) -> None:
    place = site()
    expected = (members, workers, members * workers)
    assert solve(place, members=members, workers=workers) == expected
    assert solve(place, members=members, scale=members * workers) == expected
    assert solve(place, workers=workers, scale=members * workers) == expected
