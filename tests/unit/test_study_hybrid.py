"""The study `hybrid`: configurations that fill a node, Table 11's batches, and the best configuration."""

import numpy as np
import pytest

from tests.unit.written_outcomes import outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.mapping import Scale, map_members
from trainmark.plan.resolve import resolve_config
from trainmark.plan.slots import with_slots_of
from trainmark.report.drawing import Plot
from trainmark.spec.config import LaunchConfig, Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.axes import divisors
from trainmark.studies.hybrid import HYBRID, batch_per_process
from trainmark.studies.outcomes import PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Request, nested

SPEED = "throughput_samples_per_s"
# TF-HPC, Table 11: MareNostrum4.
OF_THESIS = [(1, 48), (2, 24), (4, 12), (8, 6), (16, 3), (24, 2), (48, 1)]


def node_of(cores: int, slots: int = 2, nodes: int = 1) -> Site:
    each = cores // slots
    divided = tuple(Slot(cores=tuple(range(i * each, (i + 1) * each))) for i in range(slots))
    return Site(name="node", groups=(NodeGroup(count=nodes, slots=divided),))


def points(site: Site, size: str = "full", is_smallest: bool = False, **given: tuple[Setting, ...]) -> list[Point]:
    sources = [Source("study", nested(HYBRID.overrides(size))), Source("size", {"size": size})]
    axes = {name.replace("_", "-"): values for name, values in given.items()}
    return HYBRID.points(Request(site, resolve_config(sources), axes, is_smallest))


def test_48_cores_are_filled_in_ten_ways_among_them_the_seven_of_the_thesis() -> None:
    found = [(p.at["processes"], p.at["threads"]) for p in points(node_of(48), mode=("ranks",))]
    assert found == [(1, 48), (2, 24), (3, 16), (4, 12), (6, 8), (8, 6), (12, 4), (16, 3), (24, 2), (48, 1)]
    assert set(OF_THESIS) < set(found)
    assert divisors(1) == [1] and divisors(7) == [1, 7] and divisors(40) == [1, 2, 4, 5, 8, 10, 20, 40]


@pytest.mark.parametrize(
    ("batch", "rule", "of_table"),
    [
        (8192, "scaled", [8192, 4096, 2048, 1024, 512, 341, 170]),  # MareNostrum4, AlexNet
        (512, "scaled", [512, 256, 128, 64, 32, 21, 10]),  # MareNostrum4, ResNet-50
        (64, "fixed", [64] * 7),  # Dibona and Power9, ResNet-50
    ],
)
def test_batches_per_process_are_those_of_table_11(batch: int, rule: str, of_table: list[int]) -> None:
    assert [batch_per_process(batch, processes, rule) for processes, _ in OF_THESIS] == of_table
    chosen = tuple(processes for processes, _ in OF_THESIS)
    found = points(node_of(48), mode=("ranks",), processes=chosen, batch=(batch,), batch_rule=(rule,))
    assert [each.settings["train.batch_size"] for each in found] == of_table


def test_full_runs_are_those_of_marenostrum4_ten_minutes_each_on_synthetic_images() -> None:
    settings = HYBRID.overrides("full")
    assert (settings["train.minutes"], settings["dataset"], HYBRID.repeats) == (10.0, "synthetic", 5)
    assert points(node_of(48))[0].settings["train.batch_size"] == 512


def test_processes_are_ranks_of_one_member_or_members_of_one_rank() -> None:
    found = points(node_of(48), processes=(8,), batch=(64,), batch_rule=("fixed",), interop=(2,))
    shape = [(p.settings["ensemble.members"], p.settings["ensemble.workers"]) for p in found]
    assert [p.at["mode"] for p in found] == ["ranks", "members"] and shape == [(1, 8), (8, 1)]
    assert {(p.settings["launch.threads"], p.settings["launch.interop_threads"], p.slot_cores) for p in found} == {
        (6, 2, 6)
    }
    # The reference is the global batch, so that the learning rate is the same at every point.
    assert [p.settings["train.reference_batch_size"] for p in found] == [512, 64]


def test_one_process_runs_once_whatever_the_modes_and_rules() -> None:
    found = points(node_of(4), processes=(1, 4), batch_rule=("fixed", "scaled"))
    assert [p.label for p in found] == [
        "processes=1 threads=4 interop=1 batch=512",
        "processes=4 threads=1 interop=1 batch=512 mode=ranks batch_rule=fixed",
        "processes=4 threads=1 interop=1 batch=512 mode=ranks batch_rule=scaled",
        "processes=4 threads=1 interop=1 batch=512 mode=members batch_rule=fixed",
        "processes=4 threads=1 interop=1 batch=512 mode=members batch_rule=scaled",
    ]


@pytest.mark.parametrize("nodes", [1, 3])
def test_every_point_gives_each_process_its_own_threads_on_one_full_node(nodes: int) -> None:
    site = node_of(48, slots=4, nodes=nodes)
    for each in points(site):
        members, workers = int(each.settings["ensemble.members"]), int(each.settings["ensemble.workers"])
        launch = LaunchConfig(threads=int(each.settings["launch.threads"]))
        plan = map_members(Scale(members, workers, members * workers), with_slots_of(site, each.slot_cores), launch)
        ranks = [rank for job in plan.jobs for rank in job.ranks]
        assert plan.lanes == members and {rank.node for rank in ranks} == {"node1"}
        assert {len(rank.cores) for rank in ranks} == {each.at["threads"]}
        assert sorted(core for rank in ranks for core in rank.cores) == list(range(48))


def test_the_smallest_study_has_three_runs_on_two_cores() -> None:
    found = points(node_of(2), size="tiny", is_smallest=True)
    assert [(p.at["processes"], p.at["threads"], p.at.get("mode")) for p in found] == [
        (1, 2, None),
        (2, 1, "ranks"),
        (2, 1, "members"),
    ]


def test_processes_that_do_not_fill_the_cores_are_refused_with_those_that_do() -> None:
    says = "--processes takes 1, 2, 3, 4, 6, 12 so that they share 12 cores evenly, but got 5"
    with pytest.raises(ConfigError, match=says):
        points(node_of(12), processes=(5,))


def of(processes: int, mode: str, *speeds: float, batch: int = 64, rule: str = "fixed") -> PointOutcomes:
    way = {} if processes == 1 else {"mode": mode, "batch_rule": rule}
    at = {"processes": processes, "threads": 48 // processes, "interop": 1, "batch": batch, **way}
    return point(at, [{SPEED: speed, "step_time_s": 0.1} for speed in speeds])


def analysed(*found: PointOutcomes) -> Table:
    return HYBRID.analyse(outcomes(*found))


def written_table() -> Table:
    return analysed(
        of(1, "", 50, 60, 55, 50, 60, batch=32),
        of(1, "", 100, 120, 110, 100, 120),
        of(8, "ranks", 150, 180, 154, 150, 180),
        of(48, "ranks", 90, 100, 95, 90, 100),
        of(8, "members", 100, 132, 110, 100, 132),
        of(48, "members", 60, 70, 65, 60, 70),
        of(24, "members", 65, 76, 70, 65, 76, batch=512, rule="scaled"),
    )


def test_speed_is_compared_within_rounds_to_the_best_single_process() -> None:
    rows = written_table().rows
    # 150/100, 180/120, 154/110, and the first two again; the base is batch 64, which is faster than batch 32.
    assert [row["speedup"] for row in rows[:3]] == [0.5, 1.0, 1.5]
    assert (rows[2]["speedup_low"], rows[2]["speedup_high"]) == (1.4, 1.5)
    assert [row["batch_per_process"] for row in rows] == [32, 64, 64, 64, 64, 64, 21]


def test_the_best_configuration_of_each_mode_is_found_with_its_gain() -> None:
    assert written_table().findings == (
        "best as ranks of one model: 8 × 6 (batch 64 per process, inter-op threads: 1) with 154 samples/s, "
        "1.5 (1.4 to 1.5) times the best 1 × 48: faster",
        "best as members of an ensemble: 8 × 6 (batch 64 per process, inter-op threads: 1) with 110 samples/s, "
        "1 (1 to 1.1) times the best 1 × 48: cannot tell",
    )


def test_a_best_configuration_inside_the_noise_cannot_be_told() -> None:
    (found,) = analysed(of(2, "ranks", 100, 100), of(8, "ranks", 90, 114)).findings
    assert found == (
        "cannot tell the best as ranks of one model: 8 × 6 (batch 64 per process, inter-op threads: 1) with "
        "102 samples/s, 1.02 (0.9 to 1.14, n = 2) times that of 2 × 24 (batch 64 per process, inter-op threads: 1)"
    )


def test_a_best_one_that_is_slower_than_one_process_is_called_slower_and_one_run_gives_no_verdict() -> None:
    (slower,) = analysed(of(1, "", *[100] * 5), of(2, "ranks", 90, 94, 92, 91, 93)).findings
    assert slower.endswith("0.92 (0.9 to 0.94) times the best 1 × 48: slower")
    (four,) = analysed(of(1, "", *[100] * 4), of(2, "ranks", 90, 94, 92, 92)).findings
    assert four.endswith("0.92 (0.9 to 0.94, n = 4) times the best 1 × 48: cannot tell")
    (single,) = analysed(of(1, "", 100), of(2, "ranks", 90)).findings
    assert single.endswith("0.9 (single run) times the best 1 × 48: cannot tell")


def test_the_only_configuration_that_has_run_is_not_called_the_best() -> None:
    (alone,) = analysed(of(2, "ranks", 90, 94), of(8, "ranks")).findings
    assert alone == ("as ranks of one model: 2 × 24 (batch 64 per process, inter-op threads: 1) with 92 samples/s")


def test_the_figure_has_a_plot_per_mode_whose_curves_all_begin_at_one_process() -> None:
    (figure,) = HYBRID.figures(written_table())
    assert figure.svg is not None
    ranks, members = figure.rows[0]
    assert isinstance(ranks, Plot) and isinstance(members, Plot)
    assert (ranks.title, members.title) == ("ranks of one model", "members of an ensemble")
    drawn = {curve.label: (curve.x.tolist(), curve.y.tolist()) for curve in ranks.curves}
    assert drawn["batch 64 per process"] == ([1, 8, 48], [110, 154, 95])
    assert drawn["batch 32 per process"] == ([1], [55])
    assert "batch 512 / processes" not in drawn
    assert {curve.label: curve.x.tolist() for curve in members.curves}["batch 512 / processes"] == [24]
    assert ranks.y_range == members.y_range == (0, pytest.approx(1.08 * 180))
    assert [(line.label, line.y) for line in ranks.references] == [("best 1 × 48", 110.0)]
    assert "48 cores" in ranks.x_label


def test_a_single_core_is_one_process_and_still_drawn() -> None:
    table = analysed(point({"processes": 1, "threads": 1, "interop": 1, "batch": 8}, [{SPEED: 4.0}]))
    (figure,) = HYBRID.figures(table)
    plot = figure.rows[0][0]
    assert table.findings == () and isinstance(plot, Plot) and np.array_equal(plot.curves[0].y, [4.0])
