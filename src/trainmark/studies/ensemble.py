"""`ensemble` (AI500 §4): quality against the number of members, by subsets of the trained ones."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.subsets import MAX_SUBSETS, SubsetQuality, disagreements, qualities_of_subsets, with_predictions
from trainmark.report.bars import HeatMap
from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.table import Table
from trainmark.spec.units import show_value
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.scaling import members_on_equal_slots
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import Measure, build_table, curve, figure

SEED = 1  # of the sample of subsets
MAX_CELLS = 16  # members in the heat map; more numbers cannot be read
INTERVAL = f"intervals: smallest and largest over the subsets (all of them, or a sample of {MAX_SUBSETS})"

BySize = dict[int, list[SubsetQuality]]


def _points(request: Request) -> list[Point]:
    return [members_on_equal_slots(request, int(members)) for members in ENSEMBLE.axis("members").values(request)]


def _analyse(outcomes: Outcomes) -> Table:
    return table_of(outcomes, outcomes.measured())


def table_of(outcomes: Outcomes, measured: Mapping[str, Measured | str]) -> Table:
    """Returns one row per number of members, from the predictions of each run's members."""
    found = {int(point.at["members"]): _subsets_of(point, measured) for point in outcomes.points}
    rows = tuple(
        PointOutcomes(Point(at={"trained": trained, "members": size}), point.runs, point.refused)
        for point in outcomes.points
        for trained in [int(point.at["members"])]
        for size in found[trained] or [trained]
    )
    by_row = Outcomes(rows, outcomes.repeats, outcomes.max_spread, outcomes.axes, outcomes.base)
    runs = {int(point.at["members"]): len(point.results()) for point in outcomes.points}
    findings = [*_findings(found, runs), *outcomes.unread(measured)]
    table = build_table(by_row, _measures(found), findings, _facts(outcomes, measured))
    return table.model_copy(update={"caption": outcomes.caption_with(INTERVAL)})


def _subsets_of(point: PointOutcomes, measured: Mapping[str, Measured | str]) -> BySize:
    """Returns the subsets of all runs of a point by size; empty without predictions."""
    pooled: BySize = {}
    for run in point.runs:
        read = measured[run.run_id]
        qualities = read if isinstance(read, str) else qualities_of_subsets(read, SEED)
        for size, of_size in ({} if isinstance(qualities, str) else qualities).items():
            pooled.setdefault(size, []).extend(of_size)
    return pooled


def _over(values: Iterable[float | str]) -> Summary | None:
    """Returns the median, and the smallest and the largest; subsets overlap, so that no closer interval holds."""
    known = [value for value in values if not isinstance(value, str)]
    return Summary(float(np.median(known)), min(known), max(known)) if known else None


def _measures(found: Mapping[int, BySize]) -> list[Measure]:
    def of(point: PointOutcomes) -> list[SubsetQuality]:
        return found[int(point.at["trained"])].get(int(point.at["members"]), [])

    def gain(point: PointOutcomes) -> float | None:
        alone = _over(each.quality for each in found[int(point.at["trained"])].get(1, []))
        here = _over(each.quality for each in of(point))
        return 100 * (here.value - alone.value) if here and alone else None

    return [
        Measure("quality_ensemble", "", "quality, ensemble", lambda point: _over(each.quality for each in of(point))),
        Measure("gain_points", "", "gain over one member (points)", gain, source="quality_ensemble"),
        Measure(
            "quality_out_of_bag", "", "quality, out of bag", lambda point: _over(each.out_of_bag for each in of(point))
        ),
        Measure("disagreement", "share", "disagreement", lambda point: _over(each.disagreement for each in of(point))),
        Measure("subsets", "", "subsets", lambda point: float(len(of(point))) or None),
    ]


def _findings(found: Mapping[int, BySize], runs: Mapping[int, int]) -> list[str]:
    """Says what all members gain over one, and how often two disagree."""
    sentences = []
    for trained, by_size in found.items():
        whole, alone = (_over(each.quality for each in by_size.get(size, [])) for size in (max(by_size, default=0), 1))
        if whole is None or alone is None:
            continue
        sentences.append(
            f"{max(by_size)} of {trained} members reach {whole.value:.4g}, "
            f"{100 * (whole.value - alone.value):+.2g} points against one member ({alone.value:.4g})"
            f"{', in a single run' if runs[trained] == 1 else ''}"
        )
        last = by_size[max(by_size)][0]
        if isinstance(last.out_of_bag, str):
            sentences.append(f"out-of-bag quality is unavailable: {last.out_of_bag}")
        if isinstance(last.disagreement, str):
            sentences.append(f"disagreement is unavailable: {last.disagreement}")
        else:
            sentences.append(
                f"two members disagree on {show_value(last.disagreement, 'share')} of the held-out samples"
            )
    return list(dict.fromkeys(sentences))


def _facts(outcomes: Outcomes, measured: Mapping[str, Measured | str]) -> dict[str, Any]:
    """Returns the target quality, and how often each pair of members disagrees in the largest run."""
    read = [run for point in outcomes.points for run in point.runs if run.result is not None]
    if not read or read[0].result is None:
        return {}
    facts: dict[str, Any] = {"target_quality": read[0].result.config.evaluate.target_quality}
    runs = [each for run in read if not isinstance(each := measured[run.run_id], str)]
    largest = max(runs, key=lambda run: run.plan.members, default=None)
    usable = with_predictions(largest) if largest else "no run can be read"
    pairs = usable if isinstance(usable, str) else disagreements(usable)
    if not isinstance(pairs, str) and not isinstance(usable, str):
        members = [member.job.member for member in usable.members]
        facts["disagreement"] = {"members": members, "pairs": pairs.tolist()}
    return facts


def _figures(table: Table) -> list[Figure]:
    several = len(table.values("trained")) > 1
    drawn = [
        curve(f"{label}, of {trained}" if several else label, table.where(trained=trained), "members", name)
        for trained in table.values("trained")
        for name, label in (("quality_ensemble", "held out"), ("quality_out_of_bag", "out of bag"))
    ]
    target = table.facts.get("target_quality")
    quality = Plot(
        "quality of the ensemble",
        "members (M)",
        "quality",
        tuple(each for each in drawn if each is not None),
        () if target is None else (Reference("target quality", float(target)),),
        x_scale="whole",
    )
    text = "Quality against the number of members, by subsets of the trained ones; right: share of held-out samples on "
    text += "which two members' top-1 predictions differ"
    cells = _heat_map(table.facts.get("disagreement"))
    if cells is None:
        text = "Quality against the number of members, by subsets of the trained ones"
    return [figure(table, "ensemble", "Quality of the ensemble", text, [quality, cells] if cells else [quality])]


def _heat_map(facts: Mapping[str, Any] | None) -> HeatMap | None:
    if facts is None or not 2 <= len(facts["members"]) <= MAX_CELLS:
        return None
    values = 100 * np.array(facts["pairs"], np.float64)
    np.fill_diagonal(values, np.nan)
    names = tuple(str(member) for member in facts["members"])
    return HeatMap("disagreement of two members", "member", "member", names, names, values, "% of held-out samples")


ENSEMBLE = Study(
    name="ensemble",
    title="Quality of the ensemble",
    description="quality against M by subsets of the trained members, out-of-bag estimate, disagreement of members",
    documents="AI500 §4",
    axes=(Axis("members", "base models to train", fixed(8), smallest=fixed(3), setting="ensemble.members"),),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": True},
        "tiny": {"train.epochs": 3},
        "smallest": {"train.epochs": 1},
    },
    repeats=1,
)
