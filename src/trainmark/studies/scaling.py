"""`scaling` (AI500 Fig. 5): FLOPS, VFLOPS and APC of ensembles of growing size at a fixed number of workers each."""

from trainmark.collect.metrics.flops import implied_quality
from trainmark.plan.mapping import default_workers
from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.table import Table
from trainmark.spec.units import counted
from trainmark.studies.axes import fixed, powers_of_two
from trainmark.studies.efficiency import efficiency, other_base
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study, Values
from trainmark.studies.tables import Measure, build_table, curves, figure, metric
from trainmark.studies.verdict import between


def most_members(request: Request, workers: int = 1) -> int:
    """As many members as the site trains at a time; a single node without accelerators gives each worker a core."""
    if request.site.num_nodes == 1 and not request.site.has_accelerators:
        return max(1, request.cores_per_node // workers)
    return max(1, request.num_slots // workers)


def refuse_queueing(request: Request, asked: str, workers: int) -> None:
    """Refuses more workers than the site runs at a time: their members would queue, which is no scaling."""
    most = most_members(request)
    if workers > most:
        raise ConfigError(
            f"{asked} is more than the {counted(most, 'worker')} that '{request.site.name}' runs at a time: members "
            f"would queue. Choose at most {most}, or another --site."
        )


def slot_cores(request: Request, workers_at_a_time: int) -> int | None:
    """Cores per slot, so that the largest point fills a single node; None: the site's own slots."""
    if request.site.num_nodes > 1 or request.site.has_accelerators:
        return None
    return max(1, request.cores_per_node // workers_at_a_time)


def workers_of(request: Request) -> int:
    """Workers per member: the user's, else those of a plain run."""
    return request.base.ensemble.workers or default_workers(request.site)


def members_on_equal_slots(request: Request, members: int) -> Point:
    """Returns the point of an ensemble that fills a single node with slots of equal cores, else the site's slots."""
    found = _point(members, workers_of(request), slot_cores(request, members * workers_of(request)))
    return found.model_copy(update={"at": {"members": members}})


def _points(request: Request) -> list[Point]:
    members, workers = SCALING.axis("members").values(request), _workers(request)
    most = max(map(int, members)), max(map(int, workers))
    refuse_queueing(request, f"--members {most[0]} × --workers {most[1]}", most[0] * most[1])
    cores = slot_cores(request, most[0] * most[1])  # of a worker, whatever P: all curves have one x axis
    return [_point(int(m), int(p), cores) for p in workers for m in members]


def _workers(request: Request) -> Values:
    return SCALING.axis("workers").values(request)


def _point(members: int, workers: int, cores: int | None) -> Point:
    settings = {"ensemble.members": members, "ensemble.workers": workers}
    # Workers of smaller points must not take the cores that larger points give to others.
    threads = {"launch.threads": cores} if cores else {}
    return Point(at={"members": members, "workers": workers}, settings={**settings, **threads}, slot_cores=cores)


def penalty(point: PointOutcomes) -> Summary | None:
    """VFLOPS over FLOPS: Eq. 8's coefficient."""
    return point.ratio_of("vflops", "flops")


def _analyse(outcomes: Outcomes) -> Table:
    measured = [point for point in outcomes.points if point.results()]
    largest = max(measured, key=_scale, default=None)
    measures = [
        metric("flops"),  # first: the spread of a row is that of its first measure
        metric("vflops"),
        Measure("system_scale", "", "system scale", _scale),
        efficiency(outcomes, "flops", "members"),
        Measure("penalty", "", "penalty coefficient", penalty, source="vflops"),
        metric("quality_ensemble"),
        metric("apc_flop"),
        Measure(
            "apc_flop_per_node", "FLOP", "APC per node", lambda point: point.detail_summary("apc_flop", "per_node")
        ),
    ]
    of_each_p = list(dict.fromkeys(point.at["workers"] for point in measured))
    findings = [_reached(outcomes, workers) for workers in of_each_p]
    return build_table(outcomes, measures, [*findings, _quality(outcomes, largest) if largest else None])


def _reached(outcomes: Outcomes, workers: Setting) -> str | None:
    """The efficiency of the largest ensemble of this P; of the only one it would be 1."""
    measured = [each for each in outcomes.where(workers=workers) if each.results()]
    largest = max(measured, key=_scale)
    found = efficiency(outcomes, "flops", "members").of(largest)
    if _scale(min(measured, key=_scale)) == _scale(largest) or not isinstance(found, Summary):
        return None
    base = other_base(outcomes, largest, "flops", "members")
    start = f" from {counted(base, 'member')}" if base else ""
    return f"{_named(outcomes, largest)} reach {between(found, '.3f')} of ideal scaling in FLOPS{start}"


def _named(outcomes: Outcomes, point: PointOutcomes) -> str:
    """`8 members`, and of how many workers if that differs between points."""
    members = counted(int(point.at["members"]), "member")
    several = len({each.at["workers"] for each in outcomes.points}) > 1
    return f"{members} of {counted(int(point.at['workers']), 'worker')}" if several else members


def _quality(outcomes: Outcomes, point: PointOutcomes) -> str | None:
    """What the penalty coefficient means: figures of AI500 print it instead of the quality."""
    found, vflops = penalty(point), point.results()[0].metrics.get("vflops")
    if not (found and found.value and vflops and vflops.exponent and vflops.detail):
        return None
    target = vflops.detail["target_quality"]
    quality = implied_quality(found.value, target, vflops.exponent)
    return (
        f"{_named(outcomes, point)}: penalty coefficient {found.value:.3g} (exponent {vflops.exponent:g}), "
        f"which by Eq. 8 is a quality of {quality:.3f}; target {target:g}"
    )


def _scale(point: PointOutcomes) -> float:
    return float(int(point.at["members"]) * int(point.at["workers"]))


def _figures(table: Table) -> list[Figure]:
    plots = [_plot(table, name, title) for name, title in (("flops", "FLOPS"), ("vflops", "VFLOPS (Eq. 7)"))]
    text = (
        "FLOPS (Eq. 6) and VFLOPS against system scale. Dashed: the smallest ensemble of each P, times the number of "
        "members over its own"
    )
    apc = Plot(
        "APC per iteration (Eq. 3–4)",
        "system scale (workers)",
        "FLOP",
        curves(table, "system_scale", "apc_flop", "workers"),
        x_scale="log2",
    )
    per_node = Plot(
        "APC per node",
        "system scale (workers)",
        "FLOP",
        curves(table, "system_scale", "apc_flop_per_node", "workers"),
        x_scale="log2",
    )
    return [
        figure(table, "scaling", "Scaling with the ensemble", text, plots),
        figure(
            table, "apc", "Amount of parallel computation", "APC of one iteration, in all and per node", [apc, per_node]
        ),
    ]


def _plot(table: Table, name: str, title: str) -> Plot:
    drawn = curves(table, "system_scale", name, "workers")
    ideal = tuple(
        Reference("ideal" if len(drawn) == 1 else f"ideal, {each.label}", each.y[0] * each.x / each.x[0], each.x)
        for each in drawn
    )
    return Plot(title, "system scale (workers)", "FLOP/s", drawn, ideal, x_scale="log2", y_range=(0, None))


SCALING = Study(
    name="scaling",
    title="Scaling with the ensemble",
    description="FLOPS, VFLOPS and APC against system scale, with ideal line, efficiency and penalty coefficient",
    documents="AI500 Fig. 5 a, b",
    axes=(
        Axis(
            "members",
            "base models (M)",
            lambda request: powers_of_two(min(8, most_members(request, max(map(int, _workers(request)))))),
            setting="ensemble.members",
        ),
        Axis("workers", "workers per member (P)", fixed(1), setting="ensemble.workers"),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        # On Slurm, members start together also where other runs wait: Eq. 6 counts those that train side by side.
        "": {"launch.allocation": "one"},
        "smallest": {"train.epochs": 1, "measure.ceiling": False},
    },
    repeats=3,
)
