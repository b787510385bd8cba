"""The study `bagging-or-data-parallel`: points, efficiencies, link and figure from written-out results."""

from typing import Any

import pytest

from tests.unit.written_outcomes import outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.resolve import resolve_config
from trainmark.report.drawing import Plot
from trainmark.spec.errors import ConfigError
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.bagging import BAGGING
from trainmark.studies.outcomes import PointOutcomes
from trainmark.studies.study import Request

SPEED = "throughput_samples_per_s"


def written(method: str, speeds: dict[int, tuple[float, ...]], link: str = "as-is") -> list[PointOutcomes]:
    return [
        point({"system_scale": scale, "method": method, "link": link}, [{SPEED: each} for each in of_scale])
        for scale, of_scale in speeds.items()
    ]


def written_table(link: str = "as-is") -> Table:
    """Two rounds; in the second the machine is half as fast."""
    return BAGGING.analyse(
        outcomes(
            *written("bagging", {8: (100.0, 50.0), 16: (198.0, 99.0), 64: (792.0, 396.0)}, link),
            *written("data-parallel", {8: (100.0, 50.0), 16: (150.0, 75.0), 64: (320.0, 160.0)}, link),
        )
    )


def request(nodes: int, slots: int, accelerated: bool = False, **given: Any) -> Request:
    of_node = tuple(Slot(cores=(i,), accelerator=i if accelerated else None) for i in range(slots))
    return Request(Site(name="c", groups=(NodeGroup(count=nodes, slots=of_node),)), resolve_config([]), given)


def test_efficiency_is_speed_per_worker_over_that_of_the_smallest_scale_of_the_method() -> None:
    table = written_table()
    assert [row["efficiency"] for row in table.where(method="bagging")] == pytest.approx([1.0, 0.99, 0.99])
    assert [row["efficiency"] for row in table.where(method="data-parallel")] == pytest.approx([1.0, 0.75, 0.40])
    assert table.findings == (
        "bagging reaches 0.99 (0.99 to 0.99, n = 2) at system scale 64",
        "data-parallel reaches 0.40 (0.40 to 0.40, n = 2) at system scale 64",
        "links as they are",
    )


def test_a_named_link_is_in_table_and_caption_as_the_users_word() -> None:
    table = written_table("100 Mbit/s")
    assert table.values("link") == ["100 Mbit/s"]
    (drawn,) = BAGGING.figures(table)
    assert "link: 100 Mbit/s, as stated by the user." in drawn.caption


def test_the_figure_has_both_methods_and_ideal_lines() -> None:
    (drawn,) = BAGGING.figures(written_table())
    ((speed, share),) = drawn.rows
    assert isinstance(speed, Plot) and isinstance(share, Plot)
    assert (
        [each.label for each in speed.curves] == [each.label for each in share.curves] == ["bagging", "data-parallel"]
    )
    assert list(speed.references[0].y) == [75, 150, 600]  # type: ignore[arg-type]
    assert share.references[0].y == 1.0
    assert drawn.svg is not None


def test_without_the_smallest_scale_the_next_is_the_base_and_named() -> None:
    failed = point({"system_scale": 8, "method": "bagging", "link": "as-is"}, ["rank 0 failed"])
    table = BAGGING.analyse(outcomes(failed, *written("bagging", {16: (10.0,), 64: (36.0,)})))
    # 36 / (10 · 64 / 16).
    assert [row["efficiency"] for row in table.rows] == [None, 1.0, pytest.approx(0.9)]
    assert table.findings[0] == "bagging reaches 0.90 (single run) at system scale 64, from system scale 16"


def test_both_methods_use_the_same_workers_bagging_with_as_many_per_member_as_a_node_has() -> None:
    # AI500: from 8 to 64 GPUs, 8 a node.
    points = BAGGING.points(request(16, 8, accelerated=True))
    assert [(each.at["method"], each.at["system_scale"]) for each in points] == [
        (method, scale) for method in ("bagging", "data-parallel") for scale in (8, 16, 32, 64)
    ]
    assert points[3].settings == {"ensemble.system_scale": 64, "ensemble.workers": 8}
    assert points[7].settings == {"ensemble.members": 1, "ensemble.workers": 64}


def test_on_one_machine_each_worker_gets_the_cores_of_the_largest_scale() -> None:
    points = BAGGING.points(request(1, 4))
    assert [each.at["system_scale"] for each in points[:3]] == [1, 2, 4]
    assert {each.slot_cores for each in points} == {1}
    assert {each.settings["launch.threads"] for each in points} == {1}
    (alone,) = BAGGING.points(request(1, 4, **{"system-scale": (2,), "method": ("bagging",)}))
    assert (alone.slot_cores, alone.settings["launch.threads"]) == (2, 2)


def test_the_users_workers_per_member_are_those_of_bagging() -> None:
    site = request(4, 4).site
    base = resolve_config([Source("--set ensemble.workers", {"ensemble": {"workers": 2}})])
    points = BAGGING.points(Request(site, base))
    assert [each.at["system_scale"] for each in points[:4]] == [2, 4, 8, 16]
    assert points[3].settings["ensemble.workers"] == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"system-scale": (4, 32)}, "--system-scale 32 is more than the 16 workers that 'c' runs at a time"),
        ({"link": ("as-is", "100 Mbit/s")}, "--link is the name of one link, but got 2: it is noted, not set"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        BAGGING.points(request(4, 4, **given))
