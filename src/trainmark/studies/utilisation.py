"""`utilisation` (AI500 Fig. 6): cores, accelerators, memory and network of all members over the time of a run."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trainmark.collect.measured import Measured, Member, NodeUsage
from trainmark.collect.metrics.utilisation import Average, node_averages
from trainmark.report.drawing import Figure
from trainmark.report.node_series import Panel, first_sample_s, panels_of
from trainmark.report.utilisation import on_one_axis, small_multiples
from trainmark.spec.table import Table
from trainmark.spec.units import counted, show_value
from trainmark.studies.outcomes import Outcomes, PointOutcomes, summarise
from trainmark.studies.point import Point
from trainmark.studies.scaling import members_on_equal_slots, most_members, workers_of
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import Measure, build_table, figure

MAX_LINES = 64  # nodes whose series are kept for the figures

# Figures of a node, in the order of the figure's rows: unit and heading.
FIGURES = {
    "cpu": ("share", "CPU"),
    "gpu": ("share", "GPU"),
    "memory": ("B", "memory"),
    "gpu_memory": ("B", "GPU memory"),
    "network": ("B/s", "network"),
    "loopback": ("B/s", "loopback"),
}


class Node(NamedTuple):
    """One node of one member, in a run of `members`."""

    members: int
    member: int
    node: str


Averages = dict[Node, dict[str, list[Average]]]  # by figure, one per run


def _points(request: Request) -> list[Point]:
    return [members_on_equal_slots(request, int(members)) for members in UTILISATION.axis("members").values(request)]


def _analyse(outcomes: Outcomes) -> Table:
    return table_of(outcomes, outcomes.measured())


def table_of(outcomes: Outcomes, measured: Mapping[str, Measured | str]) -> Table:
    """Returns one row per member and node: mean and peak while training."""
    found: Averages = {}
    rows: list[PointOutcomes] = []
    for point in outcomes.points:
        nodes = _averages_of(point, measured)
        rows += [PointOutcomes(Point(at=node._asdict()), point.runs, point.refused) for node in nodes] or [point]
        found |= nodes
    by_row = Outcomes(tuple(rows), outcomes.repeats, outcomes.max_spread, outcomes.axes, outcomes.base)
    sampled = {name for of_node in found.values() for name in of_node}
    measures = [measure for name in FIGURES if name in sampled or name == "cpu" for measure in _measures(name, found)]
    findings = [*_findings(outcomes), *outcomes.unread(measured)]
    table = build_table(by_row, measures, findings, {"panels": _panels(outcomes, measured)})
    return table.model_copy(update={"caption": outcomes.caption})


def _averages_of(point: PointOutcomes, measured: Mapping[str, Measured | str]) -> Averages:
    found: Averages = {}
    for run in point.runs:
        read = measured[run.run_id]
        for member, usage in () if isinstance(read, str) else _nodes(read):
            node = Node(int(point.at["members"]), member.job.member, usage.node)
            for name, average in node_averages(member, usage).items():
                found.setdefault(node, {}).setdefault(name, []).append(average)
    return found


def _nodes(measured: Measured) -> list[tuple[Member, NodeUsage]]:
    return [(member, usage) for member in measured.finished for usage in member.usage]


def _measures(name: str, found: Averages) -> list[Measure]:
    """The columns of mean and peak of a figure."""
    unit, label = FIGURES[name]

    def column(which: str, value: Callable[[Average], float]) -> Measure:
        def of(point: PointOutcomes) -> Any:
            if "node" not in point.at:
                return None
            node = Node(int(point.at["members"]), int(point.at["member"]), str(point.at["node"]))
            return summarise(value(each) for each in found[node].get(name, ()))

        return Measure(f"{name}_{which}", unit, f"{label}, {which}", of)

    return [column("mean", lambda each: each.mean), column("peak", lambda each: each.most)]


def _findings(outcomes: Outcomes) -> list[str]:
    """States the means over all members, as the run's metrics have them."""
    sentences = []
    for point in outcomes.points:
        for name, label in (("cpu_utilisation", "CPU"), ("gpu_utilisation", "GPU")):
            if (mean := point.summary(name)) is not None:
                members = counted(int(point.at["members"]), "member")
                runs = " (single run)" if mean.n == 1 else f" (median of n = {mean.n})"
                sentences.append(
                    f"{label} utilisation with {members}: {show_value(mean.value, 'share')} on average{runs}"
                )
    return sentences


def _panels(outcomes: Outcomes, measured: Mapping[str, Measured | str]) -> list[dict[str, Any]]:
    """Returns the series of the largest point's first run, thinned, on one time axis."""
    by_size = sorted(outcomes.points, key=lambda point: -int(point.at["members"]))
    runs = [measured[run.run_id] for point in by_size for run in point.runs]
    run = next((each for each in runs if not isinstance(each, str)), None)
    if run is None:
        return []
    usage = {member.job.member: [(each.start, *each.samples) for each in member.usage] for member in run.finished}
    events = {member.job.member: member.events[0] for member in run.finished if member.events}
    panels = panels_of(usage, events, first_sample_s(usage))
    return [panel.as_record() for panel in panels[:: max(1, -(-len(panels) // MAX_LINES))]]


def _figures(table: Table) -> list[Figure]:
    panels = [Panel.of_record(record) for record in table.facts.get("panels", [])]
    text = f"Utilisation over the run, a line per node of each member (n = {len(panels)} nodes); time counts from the "
    text += "first sample of the run"
    together = figure(table, "utilisation", "Utilisation", text, *on_one_axis(panels), height=1.5)
    if not panels:
        return [together]
    since = f"Time counts from the first sample of the run. {table.caption}. "
    return [together, small_multiples(panels, "utilisation-by-member", since)]


UTILISATION = Study(
    name="utilisation",
    title="Utilisation",
    description="CPU, GPU, memory and network utilisation over the run, all members on one axis",
    documents="AI500 Fig. 6",
    axes=(
        Axis(
            "members",
            "base models (M)",
            lambda request: [most_members(request, workers_of(request))],
            setting="ensemble.members",
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False},
        "tiny": {"train.epochs": 3, "measure.usage_seconds": 0.25},
        "smallest": {"train.epochs": 2},
        "full": {"train.minutes": 10.0},
    },
    repeats=1,
)
