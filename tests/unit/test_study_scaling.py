"""The study `scaling` on written-out results: efficiency, penalty coefficient and the quality behind it, APC, ideal."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.unit.written_outcomes import outcomes
from tests.unit.written_outcomes import result as written
from trainmark.collect.metrics.flops import implied_quality
from trainmark.plan.resolve import resolve_config
from trainmark.report.drawing import Plot
from trainmark.spec.errors import ConfigError
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.studies.outcomes import Outcome, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.scaling import SCALING
from trainmark.studies.study import Request


def ensemble(
    members: int, flops: Sequence[float], penalty: float, target: float, exponent: float, workers: int = 4
) -> PointOutcomes:
    """An ensemble, by default of four workers per member, on as many nodes as members; a round per figure."""
    runs = []
    for number, speed in enumerate(flops, 1):
        figures = {"flops": speed, "vflops": speed * penalty, "apc_flop": members * workers * 100.0}
        details = {"apc_flop": {"per_node": workers * 100.0}, "vflops": {"target_quality": target}}
        result = written(figures, details)
        vflops = result.metrics["vflops"].model_copy(update={"exponent": exponent})
        metrics = {**result.metrics, "vflops": vflops}
        runs.append(Outcome(number, f"r{number}", result.model_copy(update={"metrics": metrics})))
    return PointOutcomes(Point(at={"members": members, "workers": workers}), tuple(runs))


@pytest.mark.parametrize(
    ("penalty", "target", "exponent", "quality"),
    [(0.96, 0.763, 5, 0.757), (0.44, 0.35, 10, 0.322)],
    ids=["image-classification", "extreme-weather"],
)
def test_ai500s_published_coefficients_imply_these_qualities(
    penalty: float, target: float, exponent: float, quality: float
) -> None:
    # Fig. 5 prints 0.96 and 0.44; Eq. 8: 0.763 · 0.96^(1/5) = 0.7568 top-1 and 0.35 · 0.44^(1/10) = 0.3224 mAP.
    assert implied_quality(penalty, target, exponent) == pytest.approx(quality, abs=0.0005)
    table = SCALING.analyse(outcomes(ensemble(8, [8e12], penalty, target, exponent)))
    assert table.findings[-1] == (
        f"8 members: penalty coefficient {penalty} (exponent {exponent}), which by Eq. 8 is a quality of {quality}; "
        f"target {target}"
    )


def test_efficiency_is_speed_per_member_over_that_of_the_smallest_ensemble_within_rounds() -> None:
    # 36 / (4 · 10) and 44 / (4 · 11) = 0.9 and 1: median 0.95.
    table = SCALING.analyse(
        outcomes(ensemble(1, [10e12, 11e12], 0.5, 0.75, 5), ensemble(4, [36e12, 44e12], 0.5, 0.75, 5))
    )
    one, four = table.rows
    assert (one["efficiency"], four["efficiency"]) == (1, pytest.approx(0.95))
    assert (four["efficiency_low"], four["efficiency_high"]) == (pytest.approx(0.9), pytest.approx(1.0))
    assert (one["system_scale"], four["system_scale"]) == (4, 16)
    assert (one["penalty"], four["penalty"]) == (0.5, 0.5)
    assert (four["apc_flop"], four["apc_flop_per_node"]) == (1600, 400)
    assert table.findings[0] == "4 members reach 0.950 (0.900 to 1.000, n = 2) of ideal scaling in FLOPS"


def test_the_base_is_the_smallest_ensemble_in_whatever_order_they_are_given() -> None:
    table = SCALING.analyse(outcomes(ensemble(4, [36e12], 0.5, 0.75, 5), ensemble(1, [10e12], 0.5, 0.75, 5)))
    assert [row["efficiency"] for row in table.rows] == [pytest.approx(0.9), 1]
    assert table.findings[0] == "4 members reach 0.900 (single run) of ideal scaling in FLOPS"


def test_a_base_that_is_not_the_smallest_ensemble_is_named() -> None:
    failed = PointOutcomes(Point(at={"members": 1, "workers": 4}), (Outcome(1, "r1", reason="killed"),))
    table = SCALING.analyse(outcomes(failed, ensemble(2, [20e12], 0.5, 0.75, 5), ensemble(4, [36e12], 0.5, 0.75, 5)))
    assert [row["efficiency"] for row in table.rows] == [None, 1, pytest.approx(0.9)]
    assert table.findings[0] == "4 members reach 0.900 (single run) of ideal scaling in FLOPS from 2 members"


def test_ensembles_that_would_queue_are_refused_and_none_is_a_default() -> None:
    site = Site(name="four", groups=(NodeGroup(slots=(Slot(cores=(0, 1, 2, 3)),)),))
    in_twos = Request(site, resolve_config([]), {"workers": (2,)})
    assert [point.at["members"] for point in SCALING.points(in_twos)] == [1, 2]
    too_many = Request(site, resolve_config([]), {"members": (1, 2, 4, 8)})
    with pytest.raises(ConfigError) as refused:
        SCALING.points(too_many)
    assert str(refused.value) == (
        "--members 8 × --workers 1 is more than the 4 workers that 'four' runs at a time: members would queue. "
        "Choose at most 4, or another --site."
    )


def test_the_ideal_line_is_the_smallest_scale_times_the_number_of_workers() -> None:
    points = [ensemble(members, [members * 9e12], 0.5, 0.75, 5) for members in (1, 2, 4)]
    scaling, apc = SCALING.figures(SCALING.analyse(outcomes(*points)))
    for plot, title, unit in zip(scaling.rows[0], ("FLOPS", "VFLOPS (Eq. 7)"), (9e12, 4.5e12), strict=True):
        assert isinstance(plot, Plot) and plot.title == title
        (ideal,) = plot.references
        np.testing.assert_allclose(ideal.y, [unit, 2 * unit, 4 * unit])
        np.testing.assert_allclose(plot.curves[0].x, [4, 8, 16])
    drawn = [list(plot.curves[0].y) for plot in apc.rows[0] if isinstance(plot, Plot)]
    assert drawn == [[400, 800, 1600], [400, 400, 400]]


def test_workers_have_the_same_cores_at_every_number_of_workers_per_member() -> None:
    site = Site(name="eight", groups=(NodeGroup(slots=(Slot(cores=tuple(range(8))),)),))
    points = SCALING.points(Request(site, resolve_config([]), {"members": (1, 2), "workers": (1, 2)}))
    # 8 cores / (2 members × 2 workers): also for P = 1, whose largest ensemble has two workers alone.
    assert [(each.at["workers"], each.slot_cores, each.settings["launch.threads"]) for each in points] == [
        (1, 2, 2),
        (1, 2, 2),
        (2, 2, 2),
        (2, 2, 2),
    ]


def test_each_number_of_workers_per_member_has_its_own_ideal_line_and_finding() -> None:
    points = [ensemble(members, [members * 9e12], 0.5, 0.75, 5, workers=1) for members in (1, 2)]
    points += [ensemble(members, [speed], 0.5, 0.75, 5, workers=2) for members, speed in ((1, 16e12), (2, 28e12))]
    table = SCALING.analyse(outcomes(*points))
    plot = SCALING.figures(table)[0].rows[0][0]
    assert isinstance(plot, Plot)
    lines = {label: (list(x), list(y)) for label, y, x in plot.references}  # type: ignore[arg-type]
    assert lines == {"ideal, workers 1": ([1, 2], [9e12, 18e12]), "ideal, workers 2": ([2, 4], [16e12, 32e12])}
    assert table.findings[:2] == (
        "2 members of 1 worker reach 1.000 (single run) of ideal scaling in FLOPS",
        "2 members of 2 workers reach 0.875 (single run) of ideal scaling in FLOPS",
    )
    assert table.findings[2].startswith("2 members of 2 workers: penalty coefficient 0.5 (exponent 5)")


def test_without_quality_there_is_speed_and_no_coefficient() -> None:
    table = SCALING.analyse(
        outcomes(PointOutcomes(Point(at={"members": 1, "workers": 4}), (Outcome(1, "r1", written({"flops": 1e12})),)))
    )
    assert table.rows[0]["flops"] == 1e12 and table.rows[0]["penalty"] is None
    assert table.findings == ()
