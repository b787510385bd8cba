"""The study `trade-off`: its points, and what follows from Results written out by hand."""

from collections.abc import Mapping

import pytest

from tests.unit.written_outcomes import outcomes, result
from trainmark.plan.resolve import resolve_config
from trainmark.report.drawing import Plot
from trainmark.spec.errors import ConfigError
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.axes import divisors
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Request, Values
from trainmark.studies.trade_off import TRADE_OFF

SPEED, QUALITY = "throughput_samples_per_s", "quality_ensemble"
Figures = Mapping[str, float]


def request(site: Site, given: Mapping[str, Values] | None = None) -> Request:
    return Request(site, resolve_config([]), given or {})


def cpu_node(cores: int) -> Site:
    return Site(name="cpu", groups=(NodeGroup(slots=(Slot(cores=tuple(range(cores))),)),))


def gpu_nodes() -> Site:
    slots = tuple(Slot(cores=(n,), accelerator=n) for n in range(2))
    return Site(name="gpus", groups=(NodeGroup(count=3, slots=slots),))


def at_scale(scale: int, members: int, *rounds: Figures | str, at_a_time: float | None = None) -> PointOutcomes:
    """A point whose members train at a time, all of them or as many as is said."""
    runs = []
    for number, each in enumerate(rounds, 1):
        if isinstance(each, str):
            runs.append(Outcome(number, f"r{number}", reason=each))
        else:
            details: dict[str, dict[str, object]] = {SPEED: {"members_at_a_time": at_a_time or members}}
            runs.append(Outcome(number, f"r{number}", result(each, details, members)))
    return PointOutcomes(Point(at={"system_scale": scale, "members": members}), tuple(runs))


def figures(speed: float, quality: float, vflops: float) -> Figures:
    return {SPEED: speed, QUALITY: quality, "vflops": vflops}


def of_eight() -> Outcomes:
    """Six rounds, of two kinds; those of the second are 10 % slower throughout."""
    return outcomes(
        at_scale(8, 1, *(figures(400, 0.75, 1e12), figures(360, 0.76, 0.9e12)) * 3),
        at_scale(8, 2, *(figures(600, 0.77, 2e12), figures(540, 0.77, 1.8e12)) * 3),
        at_scale(8, 8, *(figures(800, 0.78, 2.5e12), figures(720, 0.80, 2.25e12)) * 3),
    )


def table(found: Outcomes | None = None) -> Table:
    return TRADE_OFF.analyse(found or of_eight())


def test_points_are_all_ways_to_divide_the_system_scale() -> None:
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
    found = TRADE_OFF.points(request(gpu_nodes()))
    assert [point.at for point in found] == [{"system_scale": 6, "members": m} for m in (1, 2, 3, 6)]
    assert found[1].settings == {"ensemble.members": 2, "ensemble.system_scale": 6}
    assert all(point.slot_cores is None for point in found)


def test_a_single_node_without_accelerators_gives_every_worker_the_same_cores() -> None:
    found = TRADE_OFF.points(request(cpu_node(4)))
    assert [(point.at["members"], point.slot_cores) for point in found] == [(1, 1), (2, 1), (4, 1)]
    halves = TRADE_OFF.points(request(cpu_node(4), {"system-scale": (2,)}))
    assert [(point.at["members"], point.slot_cores, point.settings["launch.threads"]) for point in halves] == [
        (1, 2, 2),
        (2, 2, 2),
    ]


def test_members_that_are_asked_for_are_points_even_if_eq_5_will_refuse_them() -> None:
    found = TRADE_OFF.points(request(gpu_nodes(), {"members": (1, 4)}))
    assert [point.at["members"] for point in found] == [1, 4]
    scales = TRADE_OFF.points(request(gpu_nodes(), {"system-scale": (2, 3)}))
    assert [tuple(point.at.values()) for point in scales] == [(2, 1), (2, 2), (3, 1), (3, 3)]


def test_a_system_scale_that_the_site_does_not_have_is_refused() -> None:
    says = "--system-scale 4 is more than the 2 workers that 'cpu' runs at a time: members would queue"
    with pytest.raises(ConfigError, match=says):
        TRADE_OFF.points(request(cpu_node(2), {"system-scale": (2, 4), "members": (2, 4)}))


def test_a_point_that_eq_5_refuses_has_no_workers_per_member() -> None:
    refused = PointOutcomes(Point(at={"system_scale": 2, "members": 4}), (), "4 members × P cannot be 2")
    assert table(outcomes(at_scale(2, 1, figures(1, 0.5, 1)), refused)).rows[1]["workers"] is None


def test_the_speed_of_a_base_model_is_that_of_all_over_the_members_at_a_time() -> None:
    rows = table().rows
    assert [row["samples_per_s_per_member"] for row in rows] == [380, 570 / 2, 760 / 8]
    assert [row["workers"] for row in rows] == [8, 4, 1]


def test_members_that_took_turns_are_as_fast_as_they_were_while_they_trained() -> None:
    # Three members on two slots: 1.5 at a time on average. 300 / 1.5 = 200 each, half the speed of one alone.
    one, three = at_scale(3, 1, figures(400, 0.7, 1)), at_scale(3, 3, figures(300, 0.8, 2), at_a_time=1.5)
    found = table(outcomes(one, three))
    assert [row["samples_per_s_per_member"] for row in found.rows] == [400, 200]
    assert found.findings == (
        "system scale 3: cannot tell which is best for VFLOPS: M = 3 × P = 1 has 2 (single run) times that of "
        "M = 1 × P = 3",
        "system scale 3: quality of M = 3 × P = 1 against M = 1 × P = 3: +10.00 (single run) points",
        "system scale 3: a base model trains 2 (single run) times as fast at M = 1 × P = 3 as at M = 3 × P = 1",
    )


def test_gains_of_quality_are_points_within_rounds() -> None:
    # Round 1: 0.75, 0.77, 0.78; round 2: 0.76, 0.77, 0.80.
    assert [row["gain_points"] for row in table().rows] == pytest.approx([0, 1.5, 3.5])
    assert [row["gain_points_low"] for row in table().rows] == pytest.approx([0, 1, 3])


def test_findings_say_the_best_m_the_gain_of_quality_and_the_loss_of_speed() -> None:
    assert table().findings == (
        "system scale 8: best for VFLOPS: M = 8 × P = 1, 1.25 (1.25 to 1.25) times that of M = 2 × P = 4",
        "system scale 8: quality of M = 8 × P = 1 against M = 1 × P = 8: +3.50 (+3.00 to +4.00) points",
        "system scale 8: a base model trains 4 (4 to 4) times as fast at M = 1 × P = 8 as at M = 8 × P = 1",
    )


def test_a_best_m_inside_the_noise_cannot_be_told() -> None:
    one = at_scale(2, 1, figures(1, 0.5, 100), figures(1, 0.5, 100), figures(1, 0.5, 100))
    two = at_scale(2, 2, figures(1, 0.5, 90), figures(1, 0.5, 105), figures(1, 0.5, 110))
    assert table(outcomes(one, two)).findings[0] == (
        "system scale 2: cannot tell which is best for VFLOPS: M = 2 × P = 1 has 1.05 (0.9 to 1.1, n = 3) times that "
        "of M = 1 × P = 2"
    )


def test_a_failed_point_is_a_gap_and_the_others_are_compared() -> None:
    found = table(
        outcomes(at_scale(8, 1, "killed"), at_scale(8, 2, figures(6, 0.7, 2)), at_scale(8, 8, figures(8, 0.8, 3)))
    )
    assert found.rows[0]["n"] == 0 and found.rows[0]["note"] == "killed"
    assert found.rows[0]["samples_per_s_per_member"] is None and found.rows[0]["gain_points"] is None
    assert found.findings[1] == (
        "system scale 8: quality of M = 8 × P = 1 against M = 2 × P = 4: +10.00 (single run) points"
    )
    assert table(outcomes(at_scale(8, 1, "killed"))).findings == ()


def test_the_figure_has_speed_quality_throughput_and_vflops_over_m() -> None:
    (drawn,) = TRADE_OFF.figures(Table.model_validate_json(table().as_json()))
    plots = [plot for row in drawn.rows for plot in row if isinstance(plot, Plot)]
    assert [plot.curves[0].x.tolist() for plot in plots] == [[1, 2, 8]] * 4
    speed, quality, throughput, vflops = (plot.curves[0] for plot in plots)
    assert speed.y.tolist() == [380, 285, 95]
    assert quality.y.tolist() == pytest.approx([0.755, 0.77, 0.79])
    assert throughput.y.tolist() == [380, 570, 760]
    assert vflops.y.tolist() == [0.95e12, 1.9e12, 2.375e12]
    assert [(each.label, each.y) for each in plots[1].references] == [("target quality", 0.8)]
    assert drawn.svg is not None
