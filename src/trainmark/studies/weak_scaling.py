"""`weak-scaling` (CPU-TORCH Fig. 4): throughput of one model on a growing number of ranks, the batch per rank fixed."""

from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.table import Cell, Table
from trainmark.spec.units import counted
from trainmark.studies.axes import powers_of_two
from trainmark.studies.efficiency import efficiency
from trainmark.studies.outcomes import Outcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.scaling import slot_cores
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import build_table, curves, figure, metric
from trainmark.studies.verdict import between

SPEED = "throughput_samples_per_s"
MODELS_OF_DOCUMENT = ("resnet34", "resnext50-32x4d", "wide-resnet101-2")
PLOTS_PER_ROW = 3


def has_rank_per_node(request: Request) -> bool:
    """Whether each rank has a node of its own: on clusters without accelerators."""
    return request.site.num_nodes > 1 and not request.site.has_accelerators


def most_ranks(request: Request) -> int:
    """As many ranks as one model can have: the nodes, else the slots, of the largest group of identical nodes."""
    per_node = has_rank_per_node(request)
    return max(group.count * (1 if per_node else len(group.slots)) for group in request.site.groups)


def _points(request: Request) -> list[Point]:
    ranks, models = (axis.values(request) for axis in WEAK_SCALING.axes)
    counts = sorted(map(int, ranks))
    return [_point(request, str(model), count, counts[-1]) for model in models for count in counts]


def _point(request: Request, model: str, ranks: int, most: int) -> Point:
    settings: dict[str, Setting] = {
        "model": model,
        "ensemble.members": 1,
        "ensemble.workers": ranks,
        # With the linear rule, learning rate × ranks.
        "train.reference_batch_size": request.base.train.batch_size,
    }
    cores = request.cores_per_node if has_rank_per_node(request) else slot_cores(request, most)
    if cores and request.site.num_nodes == 1:
        settings["launch.threads"] = cores  # few ranks must not take the cores that more ranks share
    return Point(at={"model": model, "ranks": ranks}, settings=settings, slot_cores=cores)


def _analyse(outcomes: Outcomes) -> Table:
    measures = [metric(SPEED), efficiency(outcomes, SPEED, "ranks"), metric("step_time_s")]
    table = build_table(outcomes, measures)
    findings = [_finding(outcomes, str(model)) for model in table.values("model")]
    return table.model_copy(update={"findings": tuple(finding for finding in findings if finding)})


def _finding(outcomes: Outcomes, model: str) -> str | None:
    """What the most ranks of a model reach."""
    measured = [(point, speed) for point in outcomes.where(model=model) if (speed := point.summary(SPEED))]
    if len(measured) < 2:
        return None
    (first, _), *_, (last, speed) = measured
    reached = efficiency(outcomes, SPEED, "ranks").of(last)
    share = between(reached, ".3f") if isinstance(reached, Summary) else "unknown"
    start = counted(int(first.at["ranks"]), "rank")
    return f"{model}: {last.at['ranks']} ranks train {speed.value:.4g} samples/s, {share} of ideal scaling from {start}"


def _figures(table: Table) -> list[Figure]:
    plots: list[Plot | None] = [_plot(table, model) for model in table.values("model")]
    across = min(PLOTS_PER_ROW, len(plots))
    plots += [None] * (-len(plots) % across)
    rows = [plots[i : i + across] for i in range(0, len(plots), across)]
    share = Plot(
        "efficiency P_r / (r · P_1)",
        "ranks",
        "efficiency",
        curves(table, "ranks", "efficiency", "model"),
        (Reference("ideal", 1.0),),
        x_scale="log2",
        y_range=(0, None),
    )
    text = "Throughput against ranks, the batch per rank fixed. Dashed: the fewest ranks' throughput times the ranks"
    return [
        figure(table, "weak-scaling", "Weak scaling", text, *rows),
        figure(table, "weak-scaling-efficiency", "Efficiency of weak scaling", "Throughput per rank", [share]),
    ]


def _plot(table: Table, model: Cell) -> Plot:
    drawn = curves(table, "ranks", SPEED, model=model)
    ideal = tuple(Reference("ideal", each.y[0] * each.x / each.x[0], each.x) for each in drawn)
    return Plot(str(model), "ranks", "samples/s", drawn, ideal, x_scale="log2", is_log_y=True)


WEAK_SCALING = Study(
    name="weak-scaling",
    title="Weak scaling",
    description="throughput of one model on 1, 2, 4, … ranks with a fixed batch per rank, with ideal line, per model",
    documents="CPU-TORCH Fig. 4",
    axes=(
        Axis(
            "ranks",
            "ranks of the model: one per node; on a single node, one per slot",
            lambda request: powers_of_two(most_ranks(request)),
            setting="ensemble.workers",
        ),
        Axis(
            "model",
            "models",
            lambda request: ["resnet-tiny"] if request.base.size == "tiny" else MODELS_OF_DOCUMENT,
            kind=str,
            setting="model",
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {
            "ensemble.bootstrap": "none",
            "evaluate.out_of_bag": False,
            "measure.ceiling": False,
            "train.learning_rate": 0.001,  # times ranks: 0.128 on the document's 128, where the loss stays finite
            "train.rate_scaling": "linear",
        },
        "tiny": {
            "dataset": "synthetic",
            "data.num_train": 12_800,
            "data.channels": 3,
            "data.height": 32,
            "data.width": 32,
            "data.num_classes": 10,
            "train.batch_size": 32,
            "train.steps": 40,
        },
        "full": {
            "dataset": "cifar10",
            "data.num_train": 50_000,
            "data.num_eval": 10_000,
            "train.augmentation": "none",
            "train.batch_size": 128,
            "train.steps": 100,  # the same work for every rank; an epoch of 128 ranks has three steps
        },
    },
    repeats=5,
)
