"""The study `weak-scaling`: where ranks are placed, the linear rule, efficiency and ideal lines."""

import pytest

from tests.unit.written_outcomes import outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.mapping import Scale, map_members
from trainmark.plan.resolve import resolve_config
from trainmark.plan.slots import with_slots_of
from trainmark.report.drawing import Plot
from trainmark.spec.config import LaunchConfig, Setting
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.point import Point
from trainmark.studies.study import Request, nested
from trainmark.studies.weak_scaling import WEAK_SCALING

SPEED = "throughput_samples_per_s"
CLUSTER = Site(name="cluster", groups=(NodeGroup(count=4, slots=(Slot(cores=(0, 1)), Slot(cores=(2, 3)))),))
NODE = Site(name="node", groups=(NodeGroup(slots=tuple(Slot(cores=(core,)) for core in range(8))),))
GPUS = Site(name="gpus", groups=(NodeGroup(count=2, slots=tuple(Slot(cores=(i,), accelerator=i) for i in range(4))),))


def points(
    site: Site, size: str = "full", settings: dict[str, Setting] | None = None, **given: tuple[Setting, ...]
) -> list[Point]:
    chosen = {**WEAK_SCALING.overrides(size), **(settings or {}), "size": size}
    return WEAK_SCALING.points(Request(site, resolve_config([Source("study", nested(chosen))]), given))


def nodes_of(site: Site, each: Point) -> list[tuple[str, int]]:
    """The node and number of cores of each rank."""
    ranks = int(each.settings["ensemble.workers"])
    launch = LaunchConfig(threads=each.settings.get("launch.threads"))  # type: ignore[arg-type]
    (job,) = map_members(Scale(1, ranks, ranks), with_slots_of(site, each.slot_cores), launch).jobs
    return [(rank.node, len(rank.cores)) for rank in job.ranks]


def test_a_cluster_has_one_rank_per_node_with_all_its_cores() -> None:
    found = points(CLUSTER, model=("resnet34",))
    assert [each.at["ranks"] for each in found] == [1, 2, 4]
    assert nodes_of(CLUSTER, found[-1]) == [("node1", 4), ("node2", 4), ("node3", 4), ("node4", 4)]
    assert nodes_of(CLUSTER, found[0]) == [("node1", 4)]
    assert "launch.threads" not in found[0].settings  # two cores can be left to the system by --set


def test_on_a_single_node_every_rank_has_the_same_cores_however_many_there_are() -> None:
    found = points(NODE, model=("resnet34",))
    assert [each.at["ranks"] for each in found] == [1, 2, 4, 8]
    assert [set(nodes_of(NODE, each)) for each in found] == [{("node1", 1)}] * 4
    fewer = points(NODE, model=("resnet34",), ranks=(2, 1))
    assert [len(nodes_of(NODE, each)) for each in fewer] == [1, 2]
    assert [set(nodes_of(NODE, each)) for each in fewer] == [{("node1", 4)}] * 2


def test_with_accelerators_there_is_one_rank_per_accelerator() -> None:
    found = points(GPUS, model=("resnet34",))
    assert [each.at["ranks"] for each in found] == [1, 2, 4, 8]
    assert [name for name, _ in nodes_of(GPUS, found[-1])] == ["node1"] * 4 + ["node2"] * 4


def test_full_runs_are_those_of_the_document() -> None:
    found = points(CLUSTER)
    assert list(dict.fromkeys(each.at["model"] for each in found)) == [
        "resnet34",
        "resnext50-32x4d",
        "wide-resnet101-2",
    ]
    settings = WEAK_SCALING.overrides("full")
    assert (settings["dataset"], settings["data.num_train"], settings["train.batch_size"]) == ("cifar10", 50_000, 128)
    assert WEAK_SCALING.repeats == 5


def test_the_learning_rate_grows_with_the_ranks_also_for_another_batch() -> None:
    assert WEAK_SCALING.overrides("full")["train.rate_scaling"] == "linear"
    # The rate is that of the reference batch: the batch of one rank.
    assert {each.settings["train.reference_batch_size"] for each in points(CLUSTER)} == {128}
    smaller = points(CLUSTER, settings={"train.batch_size": 64})
    assert {each.settings["train.reference_batch_size"] for each in smaller} == {64}


def written_table() -> Table:
    return WEAK_SCALING.analyse(
        outcomes(
            point({"model": "resnet34", "ranks": 1}, [{SPEED: 100}, {SPEED: 50}, {SPEED: 80}]),
            point({"model": "resnet34", "ranks": 2}, [{SPEED: 190}, {SPEED: 90}, {SPEED: 144}]),
            point({"model": "resnet34", "ranks": 4}, [{SPEED: 320}, {SPEED: 150}, {SPEED: 240}]),
            point({"model": "wide-resnet101-2", "ranks": 1}, ["out of memory"] * 3),
            point({"model": "wide-resnet101-2", "ranks": 2}, [{SPEED: 10}, {SPEED: 11}, {SPEED: 12}]),
            point({"model": "wide-resnet101-2", "ranks": 4}, [{SPEED: 18}, {SPEED: 22}, {SPEED: 18}]),
        )
    )


def test_efficiency_is_speed_per_rank_over_that_of_the_fewest_ranks_within_rounds() -> None:
    found = [row["efficiency"] for row in written_table().rows]
    # 190/200, 90/100, 144/160; 320/400, 150/200, 240/320; then from two ranks on: 18/20, 22/22, 18/24.
    assert found == [1.0, pytest.approx(0.9), 0.75, None, 1.0, 0.9]
    assert written_table().rows[2]["efficiency_high"] == 0.8


def test_the_findings_say_what_the_most_ranks_of_each_model_reach() -> None:
    assert written_table().findings == (
        "resnet34: 4 ranks train 240 samples/s, 0.750 (0.750 to 0.800, n = 3) of ideal scaling from 1 rank",
        "wide-resnet101-2: 4 ranks train 18 samples/s, 0.900 (0.750 to 1.000, n = 3) of ideal scaling from 2 ranks",
    )


def test_the_figures_have_a_plot_per_model_with_its_ideal_line_and_all_efficiencies() -> None:
    speed, efficiency = WEAK_SCALING.figures(written_table())
    assert speed.svg is not None and efficiency.svg is not None
    resnet, wide = speed.rows[0]
    assert isinstance(resnet, Plot) and isinstance(wide, Plot)
    assert (resnet.title, resnet.curves[0].y.tolist()) == ("resnet34", [80, 144, 240])
    assert [list(line.y) for line in resnet.references] == [[80, 160, 320]]  # type: ignore[arg-type]
    assert [list(line.y) for line in wide.references] == [[11, 22]]  # type: ignore[arg-type]
    (share,) = efficiency.rows[0]
    assert isinstance(share, Plot)
    assert [curve.label for curve in share.curves] == ["model resnet34", "model wide-resnet101-2"]
    assert [line.y for line in share.references] == [1.0]
    assert "wide-resnet101-2 ranks=1 (out of memory)" in speed.caption


def test_more_than_three_models_are_drawn_in_rows() -> None:
    found = [point({"model": f"m{i}", "ranks": r}, [{SPEED: 10.0 * r}]) for i in range(4) for r in (1, 2)]
    speed, _ = WEAK_SCALING.figures(WEAK_SCALING.analyse(outcomes(*found)))
    assert [[plot and plot.title for plot in row] for row in speed.rows] == [["m0", "m1", "m2"], ["m3", None, None]]
    assert speed.svg is not None
