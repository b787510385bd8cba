"""`threads` (TF-HPC Fig. 11–16): throughput of one worker over threads, inter-op threads and batch."""

from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.table import Table
from trainmark.spec.units import counted
from trainmark.studies.axes import fixed, powers_of_two
from trainmark.studies.efficiency import efficiency
from trainmark.studies.outcomes import Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import build_table, curves, figure, metric
from trainmark.studies.verdict import verdict

SPEED = "throughput_samples_per_s"


def _points(request: Request) -> list[Point]:
    threads, interop, batches = (axis.values(request) for axis in THREADS.axes)
    return [
        Point(
            at={"threads": t, "interop": i, "batch": b},
            settings={
                "ensemble.members": 1,
                "ensemble.workers": 1,
                "launch.threads": t,
                "launch.interop_threads": i,
                "train.batch_size": b,
                "train.reference_batch_size": b,
            },
            slot_cores=int(t) if not request.site.has_accelerators else None,
        )
        for b in batches
        for i in interop
        for t in threads
    ]


def _threads(request: Request) -> list[int]:
    """Up to the cores of a node; with accelerators, up to those of a slot."""
    slots = [len(slot.cores) for group in request.site.groups for slot in group.slots]
    return powers_of_two(min(slots) if request.site.has_accelerators else request.cores_per_node)


def _analyse(outcomes: Outcomes) -> Table:
    measures = [metric(SPEED), metric("step_time_s"), efficiency(outcomes, SPEED, "threads", "efficiency e")]
    of_threads = dict.fromkeys(point.at["threads"] for point in outcomes.points)
    of_batches = dict.fromkeys((point.at["batch"], point.at["interop"]) for point in outcomes.points)
    findings = [_best_threads(outcomes, *each) for each in of_batches]
    return build_table(outcomes, measures, [*findings, *(_best_batch(outcomes, threads) for threads in of_threads)])


def _best_threads(outcomes: Outcomes, batch: Setting, interop: Setting) -> str | None:
    """The best number of threads at a batch and, of several, a number of inter-op threads."""
    several = len({point.at["interop"] for point in outcomes.points}) > 1
    with_interop = f" with {counted(int(interop), 'inter-op thread')}" if several else ""

    def name(point: PointOutcomes) -> str:
        speed = point.summary(SPEED)
        return counted(int(point.at["threads"]), "thread") + (f" ({speed.value:.4g} samples/s)" if speed else "")

    what = f"best number of threads at batch {batch}{with_interop}"
    return verdict(outcomes.where(batch=batch, interop=interop), SPEED, name, what, f"the {what}")


def _best_batch(outcomes: Outcomes, threads: Setting) -> str | None:
    """The best batch with so many threads; of several numbers of inter-op threads, with which."""
    several = len({point.at["interop"] for point in outcomes.points}) > 1

    def name(point: PointOutcomes) -> str:
        interop = f" with {counted(int(point.at['interop']), 'inter-op thread')}" if several else ""
        speed = point.summary(SPEED)
        return f"{point.at['batch']}{interop}" + (f" ({speed.value:.4g} samples/s)" if speed else "")

    what = f"best batch with {counted(int(threads), 'thread')}"
    return verdict(outcomes.where(threads=threads), SPEED, name, what, f"the {what}")


def _figures(table: Table) -> list[Figure]:
    found = []
    for interop in table.values("interop"):
        drawn = curves(table, "threads", SPEED, "batch", interop=interop)
        efficiency = curves(table, "threads", "efficiency", "batch", interop=interop)
        speed = Plot("throughput", "threads", "samples/s", drawn, x_scale="log2", y_range=(0, None))
        share = Plot(
            "efficiency e = p_t / (t · p_1)",
            "threads",
            "efficiency",
            efficiency,
            (Reference("ideal", 1.0),),
            x_scale="log2",
            y_range=(0, None),
        )
        text = f"Throughput and efficiency over threads, a curve per batch; inter-op threads: {interop}"
        found.append(figure(table, f"threads-interop-{interop}", "Threads and batch", text, [speed, share]))
    return found


THREADS = Study(
    name="threads",
    title="Threads and batch",
    description="throughput and efficiency of one worker over threads, inter-op threads and batch; best batch",
    documents="TF-HPC Fig. 11–16",
    axes=(
        Axis("threads", "threads of the worker", _threads, setting="launch.threads"),
        Axis("interop", "inter-op threads", fixed(1), setting="launch.interop_threads"),
        Axis("batch", "samples per step", fixed(32, 64, 128), setting="train.batch_size"),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False, "dataset": "synthetic"},
        "tiny": {"train.steps": 40},
        "smallest": {"train.steps": 26},
        "full": {"train.minutes": 10.0, "train.augmentation": "none"},
    },
    repeats=5,
    max_spread=0.10,
)
