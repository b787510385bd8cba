"""`nodes` (TF-HPC Fig. 20–21, Table 13): one data-parallel member on more and more whole nodes."""

from dataclasses import replace

from trainmark.data.facts import declared_facts
from trainmark.report.bars import HeatMap
from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import DATASETS
from trainmark.spec.site import NodeGroup
from trainmark.spec.table import Cell, Table
from trainmark.spec.units import counted
from trainmark.studies.axes import fixed, powers_of_two
from trainmark.studies.efficiency import base_of, efficiency, other_base
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import build_table, curve, figure, heat_map, metric
from trainmark.studies.verdict import between
from trainmark.workloads.find import find_size

SPEED = "throughput_samples_per_s"
DATA = ("synthetic", "real")


def _largest_group(request: Request) -> NodeGroup:
    """The most nodes that are alike: a member's workers are on such nodes only."""
    return max(request.site.groups, key=lambda group: group.count)


def _models(request: Request) -> list[Setting]:
    """The workload's model; at full size AlexNet beside ResNet-50, as in the thesis."""
    own = request.base.model
    return ["alexnet", own] if own.startswith("resnet50") else [own]


def _points(request: Request) -> list[Point]:
    nodes, data, models = (axis.values(request) for axis in NODES.axes)
    _check_data(request, data)
    workers, synthetic = len(_largest_group(request).slots), _synthetic(request, like_real="real" in data)
    return [
        Point(
            at={"nodes": n, "data": d, "model": m},
            settings={
                "ensemble.members": 1,
                "ensemble.workers": int(n) * workers,
                "model": m,
                # Real data are the workload's own, or those of --set dataset.
                **(synthetic if d == "synthetic" else {}),
            },
        )
        for m in models
        for d in data
        for n in nodes
    ]


def _synthetic(request: Request, *, like_real: bool) -> dict[str, Setting]:
    """Settings of synthetic data; beside real ones, of their shape and classes, so that both train alike."""
    size = find_size(request.base.workload, request.base.size)
    settings: dict[str, Setting] = {"dataset": "synthetic", "train.augmentation": "none"}
    if like_real and request.base.dataset == size.dataset:
        facts = declared_facts(size)
        shape = facts.sample_shape if facts.sample_shape and len(facts.sample_shape) == 3 else ()
        settings |= dict(zip(("data.channels", "data.height", "data.width"), shape, strict=False))
        settings |= {"data.num_classes": facts.num_classes} if facts.num_classes else {}
    return settings


def _check_data(request: Request, data: tuple[Setting, ...]) -> None:
    if "real" in data and getattr(DATASETS.load(request.base.dataset), "is_synthetic", False):
        raise ConfigError(
            f"--data real needs real data, but the dataset is '{request.base.dataset}'. Choose --data synthetic, or "
            "another --set dataset=NAME."
        )


def _analyse(outcomes: Outcomes) -> Table:
    measures = [
        metric(SPEED),
        efficiency(outcomes, SPEED, "nodes", "efficiency E"),
        metric("step_time_s"),
        metric("communication_share"),
        metric("data_wait_share"),
    ]
    return build_table(outcomes, measures, _findings(outcomes))


def _findings(outcomes: Outcomes) -> list[str]:
    """The worst and the best efficiency on the most nodes that have one; that of a base, 1, does not count."""
    efficiencies = efficiency(outcomes, SPEED, "nodes").of
    found = [
        (int(point.at["nodes"]), each, point)
        for point in outcomes.points
        if isinstance(each := efficiencies(point), Summary) and base_of(outcomes, point, SPEED, "nodes") is not point
    ]
    most = max((nodes for nodes, _, _ in found), default=None)
    ranked = sorted(((each, point) for nodes, each, point in found if nodes == most), key=lambda pair: pair[0].value)
    ends = [ranked[0], ranked[-1]] if len(ranked) > 1 else ranked
    told = [f"{between(each, '.2f')} for {_case(outcomes, point)}" for each, point in ends]
    return [f"on {most} nodes the efficiency E is {' to '.join(told)}"] if most else []


def _case(outcomes: Outcomes, point: PointOutcomes) -> str:
    """`alexnet, real data`, and the nodes of the base if these are not the fewest that were asked for."""
    base = other_base(outcomes, point, SPEED, "nodes")
    start = f", from {counted(base, 'node')}" if base else ""
    return f"{point.at['model']}, {point.at['data']} data{start}"


def _figures(table: Table) -> list[Figure]:
    models = table.values("model")
    text = (
        "Throughput of one data-parallel member over whole nodes. Dashed: that of the fewest, per node, times the nodes"
    )
    maps = [_efficiency_map(table, model) for model in models]
    return [
        figure(table, "nodes", "Scaling over nodes", text, *_in_pairs([_speed(table, model) for model in models])),
        figure(
            table,
            "nodes-efficiency",
            "Efficiency over nodes",
            "E_i = P_i / (P_1 · i), with P_i the samples/s on i nodes; without P_1, from the fewest nodes that have a "
            "result, per node; a dash is a gap",
            *([each] for each in maps),
            height=1.9,
        ),
    ]


def _in_pairs(plots: list[Plot]) -> list[list[Plot | None]]:
    """Two plots per row; a single one has the row for itself."""
    rows: list[list[Plot | None]] = [[*plots[i : i + 2]] for i in range(0, len(plots), 2)]
    if len(rows) > 1 and len(rows[-1]) == 1:
        rows[-1].append(None)
    return rows


def _speed(table: Table, model: Cell) -> Plot:
    found = [
        curve(f"{data} data", table.where(model=model, data=data), "nodes", SPEED) for data in table.values("data")
    ]
    drawn = tuple(each for each in found if each is not None)
    ideal = tuple(Reference(f"ideal, {each.label}", each.y[0] * each.x / each.x[0], each.x) for each in drawn)
    return Plot(str(model), "nodes", "samples/s", drawn, ideal, x_scale="log2", y_range=(0, None))


def _efficiency_map(table: Table, model: Cell) -> HeatMap:
    return replace(heat_map(table, str(model), "nodes", "data", "efficiency", model=model), span=(0.0, 1.0))


NODES = Study(
    name="nodes",
    title="Scaling over nodes",
    description="throughput and efficiency of one data-parallel member over whole nodes, synthetic and real data",
    documents="TF-HPC Fig. 20–21, Table 13",
    axes=(
        Axis("nodes", "whole nodes of the member", lambda request: powers_of_two(_largest_group(request).count)),
        Axis("data", "synthetic, or real: the workload's dataset", fixed(*DATA), kind=str, choices=lambda: DATA),
        Axis("model", "models", _models, kind=str, setting="model"),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False, "ensemble.bootstrap": "none"},
        "tiny": {"train.steps": 40},
        "full": {"train.minutes": 10.0},
    },
    repeats=5,
    max_spread=0.10,
)
