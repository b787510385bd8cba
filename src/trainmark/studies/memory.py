"""`memory` (HRVS Table 2, GUIDE Table 3): peak memory over batch by precision and technique; the largest batch."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import psutil

from trainmark.spec.config import Setting
from trainmark.spec.table import Table
from trainmark.studies.axes import fixed
from trainmark.studies.largest_batch import GIB, PEAK, LargestBatch, Search, check_limit, most_tries
from trainmark.studies.memory_figures import NONE, memory_figures
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Overrides, Request, Study
from trainmark.studies.tables import Measure, build_table, metric

SPEED = "throughput_samples_per_s"
TECHNIQUES: dict[str, Overrides] = {
    NONE: {},
    "recompute": {"train.torch.recompute": True},
    "offload-host": {"train.torch.offload": "host"},
    "offload-disk": {"train.torch.offload": "disk"},
    "sharded": {"train.parallel": "sharded", "ensemble.workers": 2},
}


def _workers(technique: Setting) -> int:
    return int(TECHNIQUES[str(technique)].get("ensemble.workers", 1))


def _points(request: Request) -> list[Point]:
    batches, precisions, techniques, limits = (axis.values(request) for axis in MEMORY.axes)
    is_here = request.site.num_nodes == 1 and request.base.launch.launcher != "slurm"
    if limits and is_here and not request.site.has_accelerators:
        available = psutil.virtual_memory().available
        check_limit(max(map(float, limits)), max(map(_workers, techniques)), available)
    return [
        Point(
            at={"technique": technique, "precision": precision, "batch": batch},
            settings={
                **_of_machine(request),
                "ensemble.members": 1,
                "ensemble.workers": 1,
                "train.precision": precision,
                **TECHNIQUES[str(technique)],
                **_of_batch(int(batch), _workers(technique), has_count=request.base.dataset == "synthetic"),
            },
        )
        for technique in techniques
        for precision in precisions
        for batch in batches
    ]


def _of_machine(request: Request) -> dict[str, Setting]:
    """The same cores, layout and allocator for all techniques: oneDNN's layout would be for `none` alone."""
    if request.site.has_accelerators:
        return {}
    cores = min(len(slot.cores) for group in request.site.groups for slot in group.slots)
    layout = {} if request.base.train.torch.memory_format else {"train.torch.memory_format": "contiguous"}
    allocator = {} if request.base.launch.allocator else {"launch.allocator": "glibc-mmap"}
    return {"launch.threads": request.base.launch.threads or cores, **layout, **allocator}


def _of_batch(batch: int, workers: int, *, has_count: bool) -> dict[str, Setting]:
    # Random batches cost no memory, however many; a Poisson sample of four batches has at least one.
    count = {"data.num_train": 4 * batch * workers + 400} if has_count else {}
    return {"train.batch_size": batch, "train.reference_batch_size": batch, **count}


class _Curve(NamedTuple):
    """All batches of a technique and precision under one limit; None: the accelerator's memory."""

    technique: str
    precision: str
    limit_gib: float | None
    search: Search


def _searches(outcomes: Outcomes) -> Iterator[_Curve]:
    """The searches for the largest batch: on CPUs only below a given limit, lest the machine swaps."""
    has_accelerators = outcomes.site is not None and outcomes.site.has_accelerators
    limits: list[float | None] = [float(limit) for limit in outcomes.axes.get("limit", ())]
    limits = limits or ([None] if has_accelerators else [])
    curves = dict.fromkeys((str(point.at["technique"]), str(point.at["precision"])) for point in outcomes.points)
    most = most_tries(int(batch) for batch in outcomes.axes["batch"])  # limits share what they try
    for limit in limits:
        for technique, precision in curves:
            if limit is None and technique.startswith("offload"):
                continue  # until the accelerator is full, host memory or disk may be
            points = outcomes.where(technique=technique, precision=precision)
            axis = [int(batch) for batch in outcomes.axes["batch"]]
            search = Search(points, None if limit is None else limit * GIB, axis, most_tries=most * len(limits))
            yield _Curve(technique, precision, limit, search)


def _most_more(request: Request) -> int:
    """Points that the searches add at most."""
    batches, precisions, techniques, limits = (axis.values(request) for axis in MEMORY.axes)
    alone = [each for each in techniques if limits or not str(each).startswith("offload")]
    searches = len(limits) or (1 if request.site.has_accelerators else 0)
    return searches * len(precisions) * len(alone) * most_tries(map(int, batches))


def _refine(outcomes: Outcomes) -> list[Point]:
    found: dict[str, Point] = {}
    for technique, precision, _, search in _searches(outcomes):
        batch = search.next()
        if batch is not None:
            like = outcomes.where(technique=technique, precision=precision)[0].point
            has_count = "data.num_train" in like.settings
            settings = {**like.settings, **_of_batch(batch, _workers(technique), has_count=has_count)}
            point = Point(at={**like.at, "batch": batch}, settings=settings)
            found[point.label] = point
    return list(found.values())


def bytes_per_sample(outcomes: Outcomes) -> Measure:
    """The slope from the smallest batch of the curve, within rounds."""

    def of(point: PointOutcomes) -> Summary | None:
        curve_points = outcomes.where(technique=point.at["technique"], precision=point.at["precision"])
        base = min((each for each in curve_points if each.results()), key=_batch, default=None)
        if base is None or _batch(base) == _batch(point):
            return None
        found = point.difference(base, PEAK)
        return found.scaled(1 / (_batch(point) - _batch(base))) if found else None

    return Measure("bytes_per_sample", "B", "per sample", of, source=PEAK)


def _batch(point: PointOutcomes) -> int:
    return int(point.at["batch"])


def less_than_none(outcomes: Outcomes, name: str, of_metric: str, label: str, *, per_worker: bool = False) -> Measure:
    """1 − the metric over that without technique, at the same batch and precision, within rounds."""

    def of(point: PointOutcomes) -> Summary | None:
        base = outcomes.first(**{**point.at, "technique": NONE})
        if base is None or point.at["technique"] == NONE:
            return None
        found = point.ratio(base, of_metric)
        found = found.scaled(1 / _workers(point.at["technique"])) if found and per_worker else found
        return found._replace(value=1 - found.value, low=1 - found.high, high=1 - found.low) if found else None

    return Measure(name, "share", label, of, source=of_metric)


def _analyse(outcomes: Outcomes) -> Table:
    outcomes = replace(outcomes, points=_in_order(outcomes.points))
    measures = [
        metric(PEAK),
        bytes_per_sample(outcomes),
        less_than_none(outcomes, "memory_saved", PEAK, "memory saved"),
        metric(SPEED),
        less_than_none(outcomes, "throughput_lost", SPEED, "throughput lost per worker", per_worker=True),
    ]
    memory = _accelerator_gib(outcomes)
    largest = [(each, each.search.found()) for each in _searches(outcomes)]
    facts = {
        "largest": [
            {**found._asdict(), "technique": each.technique, "precision": each.precision, "limit_gib": each.limit_gib}
            for each, found in largest
        ],
        "limits_gib": [float(limit) for limit in outcomes.axes.get("limit", ())],
        "accelerator_gib": memory,
    }
    return build_table(outcomes, measures, _findings(largest, outcomes.repeats), facts)


def _in_order(points: Sequence[PointOutcomes]) -> tuple[PointOutcomes, ...]:
    """The points by technique, precision and batch; those of the search came last."""
    techniques, precisions = list(TECHNIQUES), list(dict.fromkeys(point.at["precision"] for point in points))

    def place(point: PointOutcomes) -> tuple[int, int, int]:
        of_technique = techniques.index(str(point.at["technique"]))
        return of_technique, precisions.index(point.at["precision"]), _batch(point)

    return tuple(sorted(points, key=place))


def _accelerator_gib(outcomes: Outcomes) -> float | None:
    """The memory of the smallest accelerator, from the Results."""
    found = [each.get("memory_bytes") for result in outcomes.results for each in result.machine.get("accelerators", [])]
    known = [memory for memory in found if memory]
    return min(known) / GIB if known else None


def _findings(largest: Sequence[tuple[_Curve, LargestBatch]], repeats: int) -> Iterator[str]:
    """One sentence per limit and precision: `largest batch within 2 GiB, fp32: none 100 (not 104), …`."""
    for limit, precision in dict.fromkeys((each.limit_gib, each.precision) for each, _ in largest):
        where = "on the accelerator" if limit is None else f"within {limit:g} GiB"
        found = [(e.technique, f) for e, f in largest if (e.limit_gib, e.precision) == (limit, precision)]
        runs = " (single runs)" if repeats == 1 else ""
        yield f"largest batch {where}, {precision}{runs}: {', '.join(_found_text(*each) for each in found)}"


def _found_text(technique: str, found: LargestBatch) -> str:
    if not found.batch:
        return f"{technique}: {'no batch fits' if found.is_found else f'unknown: {found.note}'}"
    if not found.is_found:
        return f"{technique} at least {found.batch} ({found.note})"
    return f"{technique} {found.batch} (not {found.too_large})"


MEMORY = Study(
    name="memory",
    title="Memory",
    description="peak memory over batch by precision and technique; the largest batch that fits, by bisection",
    documents="HRVS Table 2, GUIDE Table 3",
    axes=(
        Axis(
            "batch",
            "samples per pass of a worker",
            # Models of size tiny need so little that smaller batches would not show.
            lambda request: (16, 32, 64, 128, 256) if request.base.size == "full" else (64, 128, 256, 512, 1024),
            smallest=lambda request: (16, 32) if request.base.size == "full" else (64, 512),
            setting="train.batch_size",
        ),
        Axis(
            "precision",
            "precisions",
            fixed("fp32", "bf16-mixed"),
            smallest=fixed("fp32"),
            kind=str,
            setting="train.precision",
        ),
        Axis(
            "technique",
            "none, recompute, offload-host, offload-disk, sharded (two workers)",
            fixed(*TECHNIQUES),
            smallest=fixed(NONE, "recompute"),
            kind=str,
            choices=lambda: TECHNIQUES,
        ),
        Axis(
            "limit",
            "GiB per worker, for the largest batch that fits; default: the accelerator's memory, on CPUs no search",
            fixed(),
            smallest=fixed(),
            kind=float,
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=memory_figures,
    settings={
        "": {
            "dataset": "synthetic",
            "train.augmentation": "none",
            "measure.ceiling": False,
            "evaluate.out_of_bag": False,
            # Compiled models keep other activations; recomputation and sharding cannot be compiled.
            "train.torch.compiler": "none",
            "train.torch.cuda_graph": False,
        },
        "tiny": {"train.steps": 3},
        "full": {"train.steps": 10},
    },
    repeats=3,
    max_spread=0.06,
    refine=_refine,
    most_more=_most_more,
)
