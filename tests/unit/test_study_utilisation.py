"""The study `utilisation`: means, peaks and lines of samples written out by hand."""

import json

import pytest

from tests.unit.written_events import with_usage, written_member, written_run, written_sample
from tests.unit.written_outcomes import outcomes, result
from trainmark.collect.measured import Measured
from trainmark.plan.resolve import resolve_config
from trainmark.report.drawing import Plot
from trainmark.spec.machine_events import Usage
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Request
from trainmark.studies.utilisation import UTILISATION, table_of


def sample(wall_s: float, cpu_s: float, resident_bytes: int) -> Usage:
    """One second before `wall_s`: CPU time of the member's processes, and their memory."""
    used = {"cpu_s": cpu_s, "resident_bytes": resident_bytes, "processes": 1}
    return written_sample(wall_s, processes=used, network={"eth0": {"received": 3_000_000, "sent": 1_000_000}})


def two_members() -> Measured:
    """Epochs from 100 to 104 and from 101 to 105; a sample before each, which is outside of training."""
    first = [sample(100, 0.1, 1), *(sample(101.0 + i, cpu, 2**30) for i, cpu in enumerate((0.5, 1.0, 1.0, 0.5)))]
    second = [sample(101, 0.1, 1), *(sample(102.0 + i, 0.5, 2**31) for i in range(4))]
    return written_run(with_usage(written_member(0), *first), with_usage(written_member(1, start_s=101.0), *second))


def one_point(**metrics: float) -> Outcomes:
    run = Outcome(1, "r1", result(metrics, members=2))
    return outcomes(PointOutcomes(Point(at={"members": 2}), (run,)))


def table() -> Table:
    return table_of(one_point(cpu_utilisation=0.625), {"r1": two_members()})


def test_a_row_has_mean_and_peak_of_one_node_while_training() -> None:
    first, second = table().rows
    assert (first["members"], first["member"], first["node"]) == (2, 0, "node1")
    # The first step, of 0.1 s, is warm-up.
    assert (first["cpu_mean"], first["cpu_peak"]) == pytest.approx(((0.9 * 0.5 + 1.0 + 1.0 + 0.5) / 3.9, 1.0))
    assert (second["cpu_mean"], second["cpu_peak"]) == pytest.approx((0.5, 0.5))
    assert (first["memory_mean"], second["memory_peak"]) == (2**30, 2**31)
    assert (first["network_mean"], first["loopback_peak"]) == pytest.approx((4e6, 500))
    assert not any(column.name.startswith("gpu") for column in table().columns)  # there is none
    assert table().findings == ("CPU utilisation with 2 members: 62.5 % on average (single run)",)


def test_members_share_one_time_axis_that_begins_with_the_first_sample_of_the_run() -> None:
    together, by_member = UTILISATION.figures(Table.model_validate(json.loads(table().as_json())))
    plots = [plot for (plot,) in together.rows if isinstance(plot, Plot)]
    assert [plot.y_label for plot in plots] == ["%", "GiB", "MB/s", "MB/s"]
    first, second = plots[0].curves
    assert (first.label, second.label) == ("member 0", "member 1")
    assert first.x.tolist() == [0, 1, 2, 3, 4, 5] and second.x.tolist() == [1, 2, 3, 4, 5, 6]
    assert first.y.tolist() == [10, 10, 50, 100, 100, 50]  # stairs: each value from the previous x to its own
    assert plots[1].curves[1].y[-1] == 2.0
    assert plots[2].curves[0].y[-1] == 4.0
    assert [plot.x_label for plot in plots] == ["", "", "", "time in s"]
    assert together.svg is not None and by_member.svg is not None
    assert "Time counts from the first sample of the run" in by_member.caption


def test_repeats_give_medians_per_node() -> None:
    runs = tuple(Outcome(n, f"r{n}", result({}, members=2)) for n in (1, 2))
    idle = written_run(
        *(with_usage(written_member(n), *(sample(101.0 + i, 0.25, 5) for i in range(4))) for n in range(2))
    )
    found = table_of(outcomes(PointOutcomes(Point(at={"members": 2}), runs)), {"r1": two_members(), "r2": idle})
    assert found.rows[1]["cpu_mean"] == pytest.approx((0.5 + 0.25) / 2)
    assert (found.rows[1]["cpu_mean_low"], found.rows[1]["cpu_mean_high"]) == pytest.approx((0.25, 0.5))


def test_a_run_without_series_or_without_result_is_a_gap_with_its_reason() -> None:
    bare = table_of(one_point(), {"r1": written_run(written_member(0), written_member(1))})
    assert [(row["members"], row["cpu_mean"]) for row in bare.rows] == [(2, None)]
    failed = PointOutcomes(Point(at={"members": 2}), (Outcome(1, "r1", reason="killed"),))
    found = table_of(outcomes(failed), {"r1": "killed"})
    assert [(row["n"], row["note"]) for row in found.rows] == [(0, "killed")]
    (drawn,) = UTILISATION.figures(found)
    assert drawn.svg is None


def test_by_default_the_ensemble_fills_the_site() -> None:
    cpu = Site(name="cpu", groups=(NodeGroup(slots=(Slot(cores=(0, 1, 2, 3)),)),))
    (alone,) = UTILISATION.points(Request(cpu, resolve_config([])))
    assert (alone.settings["ensemble.members"], alone.settings["ensemble.workers"], alone.slot_cores) == (4, 1, 1)
    slots = tuple(Slot(cores=(n,), accelerator=n) for n in range(8))
    gpus = Site(name="gpus", groups=(NodeGroup(count=8, slots=slots),))
    (whole,) = UTILISATION.points(Request(gpus, resolve_config([])))
    # AI500: 64 GPUs, eight per node and member.
    assert (whole.settings["ensemble.members"], whole.settings["ensemble.workers"], whole.slot_cores) == (8, 8, None)
