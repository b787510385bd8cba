"""`bagging-or-data-parallel` (AI500 Fig. 9): more members, or one member on more workers, on the same system."""

from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.spec.errors import ConfigError
from trainmark.spec.table import Table
from trainmark.studies.axes import fixed, powers_of_two
from trainmark.studies.efficiency import efficiency, other_base
from trainmark.studies.outcomes import Outcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.scaling import most_members, refuse_queueing, slot_cores, workers_of
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import build_table, curve, figure, metric
from trainmark.studies.verdict import between

SPEED = "throughput_samples_per_s"
METHODS = ("bagging", "data-parallel")
AS_IS = "as-is"
MOST_MEMBERS = 8  # AI500: from 8 to 64 GPUs


def _scales(request: Request) -> list[int]:
    workers = workers_of(request)
    return powers_of_two(workers * min(MOST_MEMBERS, most_members(request, workers)), least=workers)


def _points(request: Request) -> list[Point]:
    scales, methods, links = (axis.values(request) for axis in BAGGING.axes)
    _check(request, [int(scale) for scale in scales], len(links))
    cores = slot_cores(request, max(map(int, scales)))
    # Workers of smaller points must not take the cores that larger points give to others.
    threads = {"launch.threads": cores} if cores else {}
    return [
        Point(
            at={"system_scale": scale, "method": method, "link": links[0]},
            settings={
                **({"ensemble.members": 1} if method == "data-parallel" else {"ensemble.system_scale": scale}),
                "ensemble.workers": scale if method == "data-parallel" else workers_of(request),
                **threads,
            },
            slot_cores=cores,
        )
        for method in methods
        for scale in scales
    ]


def _check(request: Request, scales: list[int], num_links: int) -> None:
    refuse_queueing(request, f"--system-scale {max(scales)}", max(scales))
    if num_links > 1:
        raise ConfigError(
            f"--link is the name of one link, but got {num_links}: it is noted, not set. Limit the link yourself and "
            "run the study once for each."
        )


def _analyse(outcomes: Outcomes) -> Table:
    measures = [
        metric(SPEED),
        efficiency(outcomes, SPEED, "system_scale"),
        metric("flops_steady"),
        metric("step_time_s"),
        metric("communication_share"),
    ]
    return build_table(outcomes, measures, _findings(outcomes))


def _findings(outcomes: Outcomes) -> list[str]:
    """The efficiency of both methods at the largest system scale, and which link that was."""
    found = []
    share = efficiency(outcomes, SPEED, "system_scale").of
    for method in dict.fromkeys(point.at["method"] for point in outcomes.points):
        measured = [point for point in outcomes.where(method=method) if share(point) is not None]
        last = max(measured, key=lambda point: int(point.at["system_scale"]), default=None)
        if last and len(measured) > 1 and isinstance(reached := share(last), Summary):
            base = other_base(outcomes, last, SPEED, "system_scale")
            start = f", from system scale {base}" if base else ""
            found.append(f"{method} reaches {between(reached, '.2f')} at system scale {last.at['system_scale']}{start}")
    return [*found, *(_link_text(str(link)) for link in dict.fromkeys(point.at["link"] for point in outcomes.points))]


def _link_text(link: str) -> str:
    return "links as they are" if link == AS_IS else f"link: {link}, as stated by the user"


def _figures(table: Table) -> list[Figure]:
    speeds, shares = _curves(table, SPEED), _curves(table, "efficiency")
    ideal = tuple(Reference("ideal", each.y[0] * each.x / each.x[0], each.x) for each in speeds[:1])
    label = "system scale (workers)"
    text = (
        "Ensembles of more and more members (bagging) and one member of more and more workers (data parallelism) on "
        "the same system. Efficiency: throughput per worker over that of the smallest measured scale of the method"
    )
    plots = [
        Plot("throughput", label, "samples/s", speeds, ideal, x_scale="log2", y_range=(0, None)),
        Plot("efficiency", label, "efficiency", shares, (Reference("ideal", 1.0),), x_scale="log2", y_range=(0, None)),
    ]
    return [figure(table, "bagging-or-data-parallel", "Bagging or data parallelism", text, plots)]


def _curves(table: Table, of: str) -> tuple[Curve, ...]:
    """One per method, always in the same colours."""
    found = [curve(str(each), table.where(method=each), "system_scale", of) for each in table.values("method")]
    return tuple(each for each in found if each is not None)


BAGGING = Study(
    name="bagging-or-data-parallel",
    title="Bagging or data parallelism",
    description="efficiency over system scale of ensembles and of one data-parallel member",
    documents="AI500 Fig. 9",
    axes=(
        Axis(
            "system-scale",
            "workers in all: ensembles of fixed workers per member, or one member",
            _scales,
            setting="ensemble.system_scale",
        ),
        Axis("method", "bagging, data-parallel", fixed(*METHODS), kind=str, choices=lambda: METHODS),
        Axis("link", "name of the link, noted in table and figure; it is not changed", fixed(AS_IS), kind=str),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {
            "measure.ceiling": False,
            "evaluate.out_of_bag": False,
            "dataset": "synthetic",
            "train.augmentation": "none",
            "launch.allocation": "one",  # on Slurm, members start together also where other runs wait
        },
        "tiny": {"train.steps": 40},
        "full": {"train.minutes": 10.0},
    },
    repeats=5,
    max_spread=0.10,
)
