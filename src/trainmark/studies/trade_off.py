"""`trade-off` (AI500 Fig. 7): speed and quality at a fixed system scale, from one large to many small base models."""

from collections.abc import Sequence

from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.table import Table
from trainmark.studies.axes import divisors
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes, Summary, summarise
from trainmark.studies.point import Point
from trainmark.studies.scaling import most_members, refuse_queueing, slot_cores
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import Measure, build_table, curves, figure, metric
from trainmark.studies.verdict import between, verdict

SPEED, PER_MEMBER = "throughput_samples_per_s", "samples_per_s_per_member"


def _members(request: Request) -> Sequence[Setting]:
    scales = TRADE_OFF.axis("system-scale").values(request)
    return sorted({each for scale in scales for each in divisors(int(scale))})


def _points(request: Request) -> list[Point]:
    """Returns all M × P = system scale; an M that the user asks for is kept, though Eq. 5 may refuse it."""
    scales, members = (axis.values(request) for axis in TRADE_OFF.axes)
    refuse_queueing(request, f"--system-scale {max(map(int, scales))}", max(map(int, scales)))
    is_asked = "members" in request.given
    return [
        _point(int(scale), int(m), slot_cores(request, int(scale)))
        for scale in scales
        for m in members
        if is_asked or int(scale) % int(m) == 0
    ]


def _point(scale: int, members: int, cores: int | None) -> Point:
    settings: dict[str, Setting] = {"ensemble.members": members, "ensemble.system_scale": scale}
    threads = {"launch.threads": cores} if cores else {}
    return Point(at={"system_scale": scale, "members": members}, settings={**settings, **threads}, slot_cores=cores)


def speed_of_one_member(run: Outcome) -> float | None:
    """Speed of one base model, AI500's training speed: that of all over the members that trained at a time."""
    speed, at_a_time = run.value(SPEED), run.detail(SPEED).get("members_at_a_time")
    return speed / float(at_a_time) if speed is not None and at_a_time else None


def _analyse(outcomes: Outcomes) -> Table:
    def gain(point: PointOutcomes) -> Summary | None:
        base = _ends(outcomes, point.at["system_scale"])[:1]
        found = point.difference(base[0], "quality_ensemble") if base else None
        return found.scaled(100) if found else None

    measures = [
        Measure(
            PER_MEMBER,
            "samples/s",
            "throughput per member",
            lambda point: summarise(map(speed_of_one_member, point.runs)),
            source=SPEED,
        ),
        Measure("workers", "", "workers per member", _workers),
        metric(SPEED),
        metric("quality_ensemble"),
        Measure("gain_points", "", "gain over the fewest members (points)", gain, source="quality_ensemble"),
        metric("quality_member_mean"),
        metric("flops"),
        metric("vflops"),
        metric("time_to_train_all_s"),
    ]
    scales = list(dict.fromkeys(point.at["system_scale"] for point in outcomes.points))
    findings = [sentence for scale in scales for sentence in _findings(outcomes, scale)]
    facts = {"target_quality": outcomes.results[0].config.evaluate.target_quality} if outcomes.results else {}
    return build_table(outcomes, measures, findings, facts)


def _workers(point: PointOutcomes) -> float | None:
    workers, rest = divmod(int(point.at["system_scale"]), int(point.at["members"]))
    return None if rest else float(workers)


def _ends(outcomes: Outcomes, scale: Setting) -> list[PointOutcomes]:
    """Returns the points of this scale with the fewest and the most members; those without Result do not count."""
    found = [point for point in outcomes.where(system_scale=scale) if point.results()]
    found.sort(key=lambda point: int(point.at["members"]))
    return [found[0], found[-1]] if len(found) > 1 else found


def _findings(outcomes: Outcomes, scale: Setting) -> list[str]:
    ends = _ends(outcomes, scale)
    if len(ends) < 2:
        return []
    fewest, most = ends
    points = most.difference(fewest, "quality_ensemble")
    said = [
        verdict(outcomes.where(system_scale=scale), "vflops", _name, "best for VFLOPS"),
        points and f"quality of {_name(most)} against {_name(fewest)}: {between(points.scaled(100), '+.2f')} points",
        _speed_of_fewest(fewest, most),
    ]
    return [f"system scale {scale}: {sentence}" for sentence in said if sentence]


def _speed_of_fewest(fewest: PointOutcomes, most: PointOutcomes) -> str | None:
    times = fewest.ratio(most, speed_of_one_member)
    return times and f"a base model trains {between(times)} times as fast at {_name(fewest)} as at {_name(most)}"


def _name(point: PointOutcomes) -> str:
    scale, members = int(point.at["system_scale"]), int(point.at["members"])
    return f"M = {members} × P = {scale // members}"


def _figures(table: Table) -> list[Figure]:
    target = table.facts.get("target_quality")
    goal = () if target is None else (Reference("target quality", float(target)),)
    text = (
        "Members × workers = system scale: training speed of one base model (AI500 Fig. 7 a), quality of the ensemble "
        "(Fig. 7 b), throughput of all members, and VFLOPS"
    )
    upper = [
        _plot(table, PER_MEMBER, "training speed of a base model", "samples/s"),
        _plot(table, "quality_ensemble", "quality of the ensemble", "quality", goal, starts_at=None),
    ]
    lower = [
        _plot(table, SPEED, "throughput of all members", "samples/s"),
        _plot(table, "vflops", "VFLOPS", "FLOP/s"),
    ]
    return [figure(table, "trade-off", "Speed or quality", text, upper, lower, height=2.3)]


def _plot(
    table: Table,
    name: str,
    title: str,
    unit: str,
    references: tuple[Reference, ...] = (),
    starts_at: float | None = 0,
) -> Plot:
    drawn = curves(table, "members", name, "system_scale")
    return Plot(title, "members (M)", unit, drawn, references, x_scale="log2", y_range=(starts_at, None))


TRADE_OFF = Study(
    name="trade-off",
    title="Speed or quality",
    description="M × P constant: training speed and quality of the ensemble against M; the best M for VFLOPS",
    documents="AI500 Fig. 7 a, b",
    axes=(
        Axis(
            "system-scale",
            "workers in all (M × P)",
            lambda request: [most_members(request)],
            setting="ensemble.system_scale",
        ),
        Axis("members", "base models (M)", _members, setting="ensemble.members"),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        # One allocation on Slurm: members that start together train side by side.
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False, "launch.allocation": "one"},
        "tiny": {"train.epochs": 3},
        "smallest": {"train.epochs": 1},
    },
    repeats=3,
)
