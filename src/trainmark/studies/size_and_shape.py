"""`size-and-shape` (HRVS Tables 1–2, Fig. 2–10): pixels, time, memory and counters by input, cores and batching."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from trainmark.machine.topology import read_topology
from trainmark.report.bars import Numbers
from trainmark.spec.event_files import read_events
from trainmark.spec.events import Steps
from trainmark.spec.table import Cell, Table
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.size_and_shape_figures import (
    COUNTERS,
    GIB,
    INFORMATIVE_PACE,
    PACE,
    PER_INFORMATIVE,
    RANDOM,
    RATIO,
    STEP_MEMORY,
    size_and_shape_figures,
)
from trainmark.studies.study import Axis, Overrides, Request, Study
from trainmark.studies.tables import Measure, build_table, metric, number, ratio
from trainmark.studies.verdict import between

SPEED = "throughput_samples_per_s"
FASTER = "pixels_over_random"  # informative pixels per second
PIXELS = {
    "informative_mp": "informative_megapixels_per_step",
    "padding_mp": "padding_megapixels_per_step",
    "total_mp": "megapixels_per_step",
}
STRATEGIES = (RANDOM, "aspect", "size", "nearest", "pixels", "singles")
FEW_CORES = 4  # HRVS
INPUTS = ("lr", "mr", "hr")  # sizes of the workload

# At size tiny: the same three kinds of input from small generated images, by the tiny workload's own recipe.
TINY: Overrides = {
    "workload": "image-classification",
    "size": "tiny",
    "train.optimizer": "adam",
    "train.learning_rate": 1e-4,
    "train.weight_decay": 0.0,
    "train.rate_scaling": "none",
    "train.schedule": "constant",
    "train.warmup_epochs": 0,
}
TINY_INPUTS: dict[str, Overrides] = {
    "lr": {"data.side": 32, "train.batch_size": 64, "train.reference_batch_size": 64},
    "mr": {"data.side": 48, "train.batch_size": 16, "train.reference_batch_size": 16},
    "hr": {"train.batch_size": 4, "train.reference_batch_size": 4},
}


def _points(request: Request) -> list[Point]:
    inputs, cores, strategies = (axis.values(request) for axis in SIZE_AND_SHAPE.axes)
    return [
        Point(
            at={"input": name, "cores": count, "batching": strategy},
            settings={
                "ensemble.members": 1,
                "ensemble.workers": 1,
                "launch.threads": count,
                "seed": 1,  # as in HRVS: every repeat trains the same batches
                **_of_input(str(name), request),
                **({} if name == "lr" else {"train.batching": strategy}),
            },
            slot_cores=None if request.site.has_accelerators else int(count),
        )
        for name in inputs
        for count in cores
        for strategy in (strategies if name != "lr" else [RANDOM])  # images of one shape need no other
    ]


def _of_input(name: str, request: Request) -> Overrides:
    if request.base.size == "tiny":
        return {**TINY, "data.input": name, **TINY_INPUTS[name]}
    return {"workload": "artworks", "size": name}


def _cores(request: Request) -> list[int]:
    """Four cores, a socket and a node, as far as they differ; on small nodes all cores; with accelerators a slot's."""
    slots = [len(slot.cores) for group in request.site.groups for slot in group.slots]
    if request.site.has_accelerators:
        return [min(slots)]
    node, socket = request.cores_per_node, max(slots)
    if request.site.num_nodes == 1 and request.base.launch.launcher != "slurm":
        socket = max(map(len, read_topology().numa_domains))
    return [*(count for count in sorted({FEW_CORES, socket}) if FEW_CORES <= count < node), node]


class StepsOf(NamedTuple):
    """Time per megapixel of each step of a point, the median over its repeats, and smallest and largest."""

    pace: list[float]
    low: list[float]
    high: list[float]


def steps_of(point: PointOutcomes, *, is_informative: bool) -> StepsOf | None:
    """Returns the steps that all repeats have; None if the events of no run are here."""
    runs = [pace for run in point.runs if len(pace := _paces(run, is_informative=is_informative))]
    if not runs:
        return None
    count = min(map(len, runs))
    of_steps = np.array([pace[:count] for pace in runs])
    parts = (np.median(of_steps, axis=0), of_steps.min(axis=0), of_steps.max(axis=0))
    return StepsOf(*(part.tolist() for part in parts))


def _paces(run: Outcome, *, is_informative: bool) -> Numbers:
    """Seconds per megapixel of each step of the first member; images of one shape have the same pixels in all."""
    if run.result is None or run.folder is None or not run.result.members:
        return np.empty(0)
    first = run.result.members[0]
    events, _ = read_events(run.folder.attempt(first.member, first.attempts).rank_events(0))
    blocks = [event for event in events if isinstance(event, Steps)]
    step_s = np.array([value for block in blocks for value in block.step_s])
    pixels = np.array([px for block in blocks for px in (block.informative_px if is_informative else block.total_px)])
    same = run.detail(PIXELS["informative_mp" if is_informative else "total_mp"]).get("mean")
    megapixels = pixels / 1e6 if len(pixels) == len(step_s) else np.full(len(step_s), same or np.nan)
    return np.asarray(step_s / megapixels, np.float64)


def _over_steps(name: str, unit: str, label: str, of_metric: str) -> Measure:
    """The mean over steps, with the smallest and the largest step as its interval (Tables 1 and 2)."""

    def of(point: PointOutcomes) -> Summary | None:
        mean, least, most = (point.detail_summary(of_metric, key) for key in ("mean", "min", "max"))
        return mean._replace(low=least.low, high=most.high) if mean and least and most else None

    return Measure(name, unit, label, of, source=of_metric)


def per_informative_megapixel() -> Measure:
    """Instructions per informative megapixel (Fig. 8 a)."""

    def of(point: PointOutcomes) -> Summary | None:
        return point.detail_summary(COUNTERS[0], "per_informative_megapixel")

    return Measure(PER_INFORMATIVE, "instructions/MP", "instructions per informative MP", of, source=COUNTERS[0])


def _measures(outcomes: Outcomes) -> list[Measure]:
    def random(point: PointOutcomes) -> PointOutcomes | None:
        return outcomes.first(**{**point.at, "batching": RANDOM})

    def faster(point: PointOutcomes) -> Summary | None:
        """Informative megapixels per second over those of random batches."""
        base = random(point)
        return base.ratio(point, INFORMATIVE_PACE) if base else None

    return [
        metric(PACE, "time per MP"),
        metric(INFORMATIVE_PACE, "time per informative MP"),
        *(
            _over_steps(name, "MP", f"{name.removesuffix('_mp')} per step", of_metric)
            for name, of_metric in PIXELS.items()
        ),
        metric(RATIO, "total / informative"),
        _over_steps(STEP_MEMORY, "B", "memory per step", STEP_MEMORY),
        metric("peak_memory_bytes"),
        metric(SPEED),
        ratio("speed_over_random", SPEED, random, "samples/s over random"),
        Measure(FASTER, "", "informative MP/s over random", faster, source=INFORMATIVE_PACE),
        *_counters(outcomes),
    ]


def _counters(outcomes: Outcomes) -> list[Measure]:
    """Columns of hardware counters, if any run has some; else a finding says why."""
    if not any(point.summary(name) for point in outcomes.points for name in COUNTERS):
        return []
    return [metric(COUNTERS[0]), per_informative_megapixel(), metric(COUNTERS[1]), metric(COUNTERS[2])]


def _analyse(outcomes: Outcomes) -> Table:
    steps = [
        {**point.at, "is_informative": is_informative, **found._asdict()}
        for point in outcomes.points
        for is_informative in (False, True)
        if (found := steps_of(point, is_informative=is_informative))
    ]
    table = build_table(outcomes, _measures(outcomes), facts={"steps": steps})
    findings = (*_table_1(table), *_table_2(table), *_best(outcomes, table), *_no_counters(outcomes))
    return table.model_copy(update={"findings": findings})


def _table_1(table: Table) -> Iterator[str]:
    """`mr, random: 10.9/11.5/12.1 MP informative, 14.5/35.3/87.3 padding, 25.4/46.8/99.4 total per step`."""
    for name in table.values("input"):
        rows = [row for row in table.where(input=name, batching=RANDOM) if number(row, "total_mp") is not None]
        if rows:
            parts = [f"{_spread(rows[0], part)} {part.removesuffix('_mp')}" for part in PIXELS]
            yield f"{name}, {RANDOM}: {', '.join(parts)} MP per step (smallest/mean/largest)"


def _table_2(table: Table) -> Iterator[str]:
    """`mr, random: 11/19.8/41.5 GiB of memory per step`."""
    for name in table.values("input"):
        rows = [row for row in table.where(input=name, batching=RANDOM) if number(row, STEP_MEMORY) is not None]
        if rows:
            yield f"{name}, {RANDOM}: {_spread(rows[0], STEP_MEMORY, GIB)} GiB per step (smallest/mean/largest)"


def _spread(row: Mapping[str, Cell], name: str, unit: float = 1.0) -> str:
    return "/".join(f"{(number(row, f'{name}{end}') or 0) / unit:.3g}" for end in ("_low", "", "_high"))


def _best(outcomes: Outcomes, table: Table) -> Iterator[str]:
    """`mr, 2 cores: nearest trains 3.1 (3 to 3.2) × the informative pixels of random per second; …`."""
    for name in table.values("input"):
        for cores in table.values("cores"):
            rows = [row for row in table.where(input=name, cores=cores) if number(row, FASTER) is not None]
            base = next((row for row in rows if row["batching"] == RANDOM), None)
            others = [row for row in rows if row is not base]
            if base is not None and others:
                best = max(others, key=lambda row: number(row, FASTER) or 0.0)
                faster = next(each for each in _measures(outcomes) if each.name == FASTER)
                found = faster.of(
                    outcomes.where(input=str(name), cores=int(cores or 0), batching=str(best["batching"]))[0]
                )
                if isinstance(found, Summary):
                    yield f"{name}, {cores} cores: {_compared(best, base, found)}"


def _compared(best: Mapping[str, Cell], base: Mapping[str, Cell], found: Summary) -> str:
    padded, before = (number(row, RATIO) or 0.0 for row in (best, base))
    text = f"{best['batching']} trains {between(found)} × the informative pixels of {RANDOM} per second"
    if not found.is_told(1):
        text = f"cannot tell whether a strategy is faster than {RANDOM}: {text}"
    return f"{text}; {padded:.3g} pixels are computed for each informative one, with {RANDOM} {before:.3g}"


def _no_counters(outcomes: Outcomes) -> Iterator[str]:
    runs = [run for point in outcomes.points for run in point.runs if run.result is not None]
    if runs and all(run.value(name) is None for run in runs for name in COUNTERS):
        why = next((why for run in runs if (why := run.why_not(COUNTERS[0]))), "unknown")
        yield f"instructions per MP, IPC and MPKI are unavailable: {why}"


SIZE_AND_SHAPE = Study(
    name="size-and-shape",
    title="Size and shape",
    description="pixels, padding, time per megapixel, memory and counters by image size, cores and batching strategy",
    documents="HRVS Tables 1–2, Fig. 2–10",
    axes=(
        Axis(
            "input",
            "lr (fixed shape), mr (shorter side fixed), hr (as they are)",
            fixed(*INPUTS),
            smallest=fixed("lr", "mr"),
            kind=str,
            choices=lambda: INPUTS,
        ),
        Axis("cores", "cores of the worker", _cores, setting="launch.threads"),
        Axis(
            "batching",
            "which images share a batch; lr is always random",
            fixed(*STRATEGIES),
            smallest=fixed(RANDOM, "nearest"),
            kind=str,
            setting="train.batching",
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=size_and_shape_figures,
    settings={
        "": {
            "dataset": "artworks",
            "measure.ceiling": False,
            "measure.step_memory": True,
            "launch.allocator": "glibc-mmap",  # one that keeps freed memory would have the largest step's in all others
            "evaluate.samples": 0,  # ten steps say nothing of quality, and predictions would take longer than they
            "train.steps": 11,  # ten are measured: the first is warm-up
            # Compiled models compile anew for every shape.
            "train.torch.compiler": "none",
            "train.torch.cuda_graph": False,
        },
        "tiny": {"data.num_train": 256, "data.num_eval": 32, "data.num_classes": 4, "data.mean_megapixels": 0.03},
        "smallest": {"train.steps": 4},
    },
    repeats=3,
    max_spread=0.06,
)
