"""`optimisations` (AI500 Fig. 8): speed and quality in each training and communication precision, over batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainmark.plan.make import default_precision
from trainmark.report.bars import Bars
from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.engine_offer import find_engine
from trainmark.spec.table import Cell, Table
from trainmark.spec.units import counted
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import (
    Measure,
    bars,
    build_table,
    curve,
    difference,
    figure,
    metric,
    ratio,
)
from trainmark.studies.verdict import between, verdict

SPEED, QUALITY = "throughput_samples_per_s", "quality_ensemble"
PLAIN = "fp32"  # what all is compared with, in training and on the wire
ON_CPUS = (PLAIN, "bf16-mixed")  # others are emulated there, and ten times as slow
ON_ACCELERATORS = (PLAIN, "tf32", "bf16-mixed", "fp16-mixed")


def _precisions(request: Request) -> Sequence[Setting]:
    return ON_ACCELERATORS if request.site.has_accelerators else ON_CPUS


def _wire_formats(request: Request) -> Sequence[Setting]:
    several = any(int(workers) > 1 for workers in OPTIMISATIONS.axis("workers").values(request))
    return (PLAIN, "fp16") if several else (PLAIN,)


def _points(request: Request) -> list[Point]:
    precisions, wires, workers, batches = (axis.values(request) for axis in OPTIMISATIONS.axes)
    default = default_precision(request.site, find_engine(request.base.train.engine).precisions)
    return [
        Point(
            at={"precision": precision, "communication": wire, "workers": p, "batch": batch},
            settings={
                "train.precision": precision,
                "train.communication_precision": wire,
                "ensemble.workers": p,
                "train.batch_size": batch,
            },
            is_default=(precision, wire) == (default, PLAIN),
        )
        for p in workers
        for batch in batches
        for wire in _wires_of(int(p), wires)
        for precision in precisions
    ]


def _wires_of(workers: int, wires: Sequence[Setting]) -> Sequence[Setting]:
    """One worker sends no gradients, so that their format makes no difference."""
    return (PLAIN,) if workers == 1 and PLAIN in wires else wires


class _Bases:
    """The points that others are compared with: fp32, or else the first precision that was chosen."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self.precision, self.wire = (self._base(name) for name in ("precision", "communication"))

    def _base(self, axis: str) -> Setting:
        values = [point.at[axis] for point in self._outcomes.points]
        return PLAIN if PLAIN in values else next(iter(values), PLAIN)

    def of_all(self, point: PointOutcomes) -> PointOutcomes | None:
        """Plain training and communication, at the same workers and batch."""
        return self._outcomes.first(**{**point.at, "precision": self.precision, "communication": self.wire})

    def of_communication(self, point: PointOutcomes) -> PointOutcomes | None:
        """The same training with plain communication."""
        return self._outcomes.first(**{**point.at, "communication": self.wire})


def _analyse(outcomes: Outcomes) -> Table:
    bases = _Bases(outcomes)
    table = build_table(outcomes, _measures(outcomes, bases))
    default = next((str(point.at["precision"]) for point in outcomes.points if point.point.is_default), None)
    facts = {"base": bases.precision, "base_communication": bases.wire, "default": default}
    findings = [
        *_of_precisions(outcomes, bases, facts["default"]),
        *_of_communication(outcomes, bases),
        _fastest(outcomes),
    ]
    return table.model_copy(update={"findings": tuple(each for each in findings if each), "facts": facts})


def _fastest(outcomes: Outcomes) -> str | None:
    several = len({point.at["workers"] for point in outcomes.points}) > 1

    def name(point: PointOutcomes) -> str:
        workers = f" on {counted(int(point.at['workers']), 'worker')}" if several else ""
        speed = point.summary(SPEED)
        what = f"{_named(point.at)} at batch {point.at['batch']}{workers}"
        return f"{what} ({speed.value:.4g} samples/s)" if speed else what

    return verdict(outcomes.points, SPEED, name, "fastest")


def _measures(outcomes: Outcomes, bases: _Bases) -> list[Measure]:
    several_wires = len({point.at["communication"] for point in outcomes.points}) > 1
    over_wire = [
        ratio("communication_speedup", SPEED, bases.of_communication, f"speed over {bases.wire} communication"),
        metric("communication_bytes_per_step"),
    ]
    return [
        metric(SPEED),
        ratio("speedup", SPEED, bases.of_all, f"speed over {bases.precision}"),
        *(over_wire if several_wires else ()),
        metric(QUALITY),
        difference("quality_difference", QUALITY, bases.of_all, f"quality − {bases.precision}"),
        metric("flops_steady"),
        metric("peak_memory_bytes"),
    ]


def _of_precisions(outcomes: Outcomes, bases: _Bases, default: Cell) -> Iterator[str]:
    """`bf16-mixed, the default, is 1.90 (1.85 to 1.93) × fp32; quality +0.002 (-0.001 to +0.004)`."""
    for precision in dict.fromkeys(point.at["precision"] for point in outcomes.points):
        points = outcomes.where(precision=precision, communication=bases.wire)
        pairs = [(point, base) for point in points if (base := bases.of_all(point))]
        speed = _span([point.ratio(base, SPEED) for point, base in pairs])
        if precision == bases.precision or not speed:
            continue
        name = f"{precision}, the default," if precision == default else f"{precision}"
        quality = _span([point.difference(base, QUALITY) for point, base in pairs], "+.3f")
        what = f"{name} is {speed} × {bases.precision}{f'; quality {quality}' if quality else ''}"
        yield f"{what} (emulated in software)" if _is_emulated(outcomes, precision) else what


def _of_communication(outcomes: Outcomes, bases: _Bases) -> Iterator[str]:
    for wire in dict.fromkeys(point.at["communication"] for point in outcomes.points):
        pairs = [(point, bases.of_communication(point)) for point in outcomes.where(communication=wire)]
        speed = _span([point.ratio(base, SPEED) for point, base in pairs if base])
        if wire != bases.wire and speed:
            yield f"{wire} communication is {speed} × {bases.wire} communication"


def _is_emulated(outcomes: Outcomes, precision: Cell) -> bool:
    results = [result for point in outcomes.points if point.at["precision"] == precision for result in point.results()]
    return any("emulated in software" in str(result.engine.get("arithmetic", "")) for result in results)


def _span(summaries: Iterable[Summary | None], style: str = ".2f") -> str:
    """`1.90 (1.85 to 1.93)`; of several points the smallest and the largest, each with its interval; else empty."""
    found = sorted((each for each in summaries if each), key=lambda each: each.value)
    return " to ".join(dict.fromkeys(between(each, style) for each in (*found[:1], *found[-1:])))


def _named(row: Mapping[str, Cell]) -> str:
    """`bf16-mixed`, or `bf16-mixed, fp16 communication`."""
    wire = row["communication"]
    return str(row["precision"]) if wire == PLAIN else f"{row['precision']}, {wire} communication"


def _figures(table: Table) -> list[Figure]:
    return [
        _over_batch(table, workers) if len(table.values("batch")) > 1 else _as_bars(table, workers)
        for workers in table.values("workers")
    ]


def _as_bars(table: Table, workers: Cell) -> Figure:
    speed = Plot(
        f"speed over {table.facts['base']}",
        "precision",
        "ratio",
        references=(Reference(f"{table.facts['base']}", 1.0),),
        bars=tuple(_bars(table, "speedup", workers)),
        y_range=(0, None),
    )
    quality = Plot("quality of the ensemble", "precision", "quality", bars=tuple(_bars(table, QUALITY, workers)))
    text = f"Speed and quality by training precision; colours: communication precision; workers per member: {workers}"
    plots = [speed] if quality.is_empty else [speed, quality]
    return figure(table, f"optimisations-workers-{workers}", "Optimisations", text, plots)


def _bars(table: Table, y: str, workers: Cell) -> Iterator[Bars]:
    wires = list(dict.fromkeys(row["communication"] for row in table.where(workers=workers)))
    for wire in wires:
        drawn = bars(table, f"{wire} communication", "precision", y, workers=workers, communication=wire)
        names = (f"{name}\n(default)" if name == table.facts["default"] else name for name in drawn.names)
        yield replace(drawn, names=tuple(names))


def _over_batch(table: Table, workers: Cell) -> Figure:
    speed = Plot("throughput", "batch", "samples/s", _curves(table, SPEED, workers), x_scale="log2", y_range=(0, None))
    over = Plot(
        f"speed over {table.facts['base']}",
        "batch",
        "ratio",
        _curves(table, "speedup", workers),
        x_scale="log2",
        y_range=(0, None),
    )
    quality = Plot("quality of the ensemble", "batch", "quality", _curves(table, QUALITY, workers), x_scale="log2")
    text = f"Throughput over batch (samples per worker and step), a curve per precision; workers per member: {workers}"
    plots = [speed, over] if quality.is_empty else [speed, over, quality]
    return figure(table, f"optimisations-workers-{workers}", "Optimisations", text, plots)


def _curves(table: Table, y: str, workers: Cell) -> tuple[Curve, ...]:
    rows = table.where(workers=workers)
    found = []
    for name in dict.fromkeys(map(_named, rows)):
        label = f"{name} (default)" if name == table.facts["default"] else name
        found.append(curve(label, [row for row in rows if _named(row) == name], "batch", y))
    return tuple(each for each in found if each is not None)


OPTIMISATIONS = Study(
    name="optimisations",
    title="Optimisations",
    description="speed and quality in each training precision and communication precision, against fp32, over batch",
    documents="AI500 Fig. 8 a, b",
    axes=(
        Axis("precision", "training precisions", _precisions, _precisions, kind=str, setting="train.precision"),
        Axis(
            "communication-precision",
            "precisions of the gradients on the wire",
            _wire_formats,
            kind=str,
            setting="train.communication_precision",
        ),
        Axis(
            "workers",
            "workers per member (P)",
            lambda request: [min(2, request.num_slots)],
            setting="ensemble.workers",
        ),
        Axis(
            "batch",
            "samples per worker and step",
            lambda request: [request.base.train.batch_size],
            setting="train.batch_size",
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False},
        "tiny": {"train.steps": 60},
        "smallest": {"train.steps": 26},
    },
    repeats=3,
)
