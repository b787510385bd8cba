"""`repeatability` (AI500 Fig. 1–2, TF-HPC §3.1): spread of quality, epochs to target and time over seeds."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainmark.report.bars import PALETTE
from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.report.plots import quality_over_epochs
from trainmark.spec.event_files import read_events
from trainmark.spec.metrics import metric_rows
from trainmark.spec.table import Table
from trainmark.spec.units import counted, show_value
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcome, Outcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import build_table, figure, metric
from trainmark.studies.target import EPOCHS, has_missed, runs_at_target, target_quality, to_target

QUALITY, TIME, FLOP = "quality_ensemble", "time_to_target_s", "flop_to_target"
SPEED, TRAINING_TIME = "throughput_samples_per_s", "time_to_train_all_s"
TO_TARGET = (EPOCHS, TIME, FLOP)
SUMMARISED = (QUALITY, EPOCHS, TIME, FLOP, TRAINING_TIME, SPEED)


class Variation(NamedTuple):
    """Smallest, median and largest of all runs, and their standard deviation over their mean."""

    least: float
    median: float
    most: float
    coefficient: float | None  # None with fewer than two runs
    n: int


def variation(values: Iterable[float | None]) -> Variation | None:
    """Returns how much values differ; None without any."""
    found = np.array([value for value in values if value is not None], np.float64)
    if not len(found):
        return None
    mean = float(found.mean())
    coefficient = float(found.std(ddof=1)) / abs(mean) if len(found) > 1 and mean else None
    return Variation(float(found.min()), float(np.median(found)), float(found.max()), coefficient, len(found))


def _points(request: Request) -> list[Point]:
    return [Point(at={"seed": seed}, settings={"seed": seed}) for seed in REPEATABILITY.axes[0].values(request)]


def _analyse(outcomes: Outcomes) -> Table:
    measures = [
        metric(QUALITY),
        to_target(EPOCHS),
        to_target(TIME),
        to_target(FLOP),
        runs_at_target(),
        metric(TRAINING_TIME),
        metric(SPEED),
    ]
    tried = [run for point in outcomes.points for run in point.runs]
    runs = [run for run in tried if run.result is not None]
    found = {name: variation(run.value(name) for run in runs) for name in SUMMARISED}
    target = target_quality(outcomes)
    facts: dict[str, Any] = {
        "target": target,
        "runs": len(runs),
        # of which it is known whether they reached the target
        "known": {
            name: sum(run.value(name) is not None or has_missed(run, name) for run in tried) for name in (EPOCHS, TIME)
        },
        "variation": {name: each._asdict() for name, each in found.items() if each},
        "evaluations": [
            {"seed": point.at["seed"], "epochs": epochs, "quality": quality}
            for point in outcomes.points
            for run in point.runs
            for epochs, quality in evaluations_of(run)
        ],
        **{name: sorted(value for run in runs if (value := run.value(name)) is not None) for name in (EPOCHS, TIME)},
    }
    told = [_in_words(name, each, len(runs), outcomes.max_spread) for name, each in found.items() if each]
    return build_table(outcomes, measures, [_num_at_target(tried, target), *told], facts)


def _num_at_target(tried: Sequence[Outcome], target: float | None) -> str | None:
    """`2 of 3 runs reached the target 0.8; unknown for 1 more`; None if it is unknown for all."""
    reached = sum(run.value(EPOCHS) is not None for run in tried)
    known = reached + sum(has_missed(run) for run in tried)
    unknown = sum(run.result is not None and run.value(EPOCHS) is None and not has_missed(run) for run in tried)
    if target is None or not known:
        return None
    more = f"; unknown for {unknown} more" if unknown else ""
    return f"{reached} of {counted(known, 'run')} reached the target {target:g}{more}"


def evaluations_of(run: Outcome) -> list[tuple[list[float], list[float]]]:
    """Returns epochs and quality of each member's evaluations, from its events."""
    if run.result is None or run.folder is None:
        return []
    attempts = [run.folder.attempt(each.member, each.attempts) for each in run.result.members if each.attempts]
    return [quality_over_epochs(read_events(attempt.rank_events(0))[0]) for attempt in attempts]


def _in_words(name: str, found: Variation, runs: int, max_spread: float) -> str:
    """`quality, ensemble: 0.78 to 0.82, median 0.8, coefficient of variation 1.31 % (n = 5)`."""
    row = metric_rows()[name]
    least, median, most = (show_value(value, row.unit) for value in found[:3])
    those = " of the runs that reached it" if name in TO_TARGET and found.n < runs else ""
    text = f"{row.label}{those}: {least} to {most}, median {median}"
    if found.coefficient is not None:
        text += f", coefficient of variation {100 * found.coefficient:.3g} %"
    spread = (found.most - found.least) / abs(found.median) if found.median else 0.0
    # The thesis holds throughput to this limit.
    flag = f", spread {spread:.0%} is above {max_spread:.0%}" if name == SPEED and spread > max_spread else ""
    return f"{text} (n = {found.n}){flag}"


def _figures(table: Table) -> list[Figure]:
    target = table.facts.get("target")
    line = () if target is None else (Reference("target", target),)
    quality = Plot("", "epochs trained", "quality", _quality_curves(table), line, x_scale="whole")
    shares = [_reached(table, EPOCHS, "epochs"), _reached(table, TIME, "s")]
    text = "Share of the runs that have reached the target, over epochs and over time; runs that miss it never count"
    return [
        figure(table, "repeatability-quality", "Quality by seed", "Quality after each evaluation", [quality]),
        figure(table, "repeatability-target", "Runs at the target", text, shares),
    ]


def _quality_curves(table: Table) -> tuple[Curve, ...]:
    """One per run and member; those of a seed share a colour while colours last."""
    series: Sequence[dict[str, Any]] = table.facts.get("evaluations", [])
    seeds = list(dict.fromkeys(each["seed"] for each in series))
    colours = dict(zip(seeds, PALETTE, strict=False)) if len(seeds) <= len(PALETTE) else {}
    return tuple(
        Curve(
            f"seed {each['seed']}",
            np.array(each["epochs"], np.float64),
            np.array(each["quality"], np.float64),
            colour=colours.get(each["seed"]),
        )
        for each in series
        if each["epochs"]
    )


def _reached(table: Table, name: str, unit: str) -> Plot:
    """Stairs that rise by one run each: with runs that miss the target they end below 1."""
    values, runs = table.facts.get(name, []), table.facts.get("known", {}).get(name, 0)
    drawn: tuple[Curve, ...] = ()
    if values:
        x = np.array([0.0, *values, 1.1 * values[-1]])
        # Stairs hold a value up to its x: after the k-th run, k/n holds until the next.
        y = np.array([0.0, *range(len(values) + 1)]) / runs
        drawn = (Curve("runs at the target", x, y, shape="stairs"),)
    label = metric_rows()[name].label
    return Plot(label, f"{label} ({unit})", "share of runs", drawn, (Reference("all runs", 1.0),), y_range=(0, 1.05))


REPEATABILITY = Study(
    name="repeatability",
    title="Repeatability",
    description="spread of quality, of epochs, time and FLOP to target, and of speed over seeds",
    documents="AI500 Fig. 1–2, Table 1; TF-HPC §3.1",
    axes=(
        Axis(
            "seeds", "seeds of bootstrap, initial weights and shuffling", fixed(1, 2, 3, 4, 5), setting="seed", least=0
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "smallest": {"train.epochs": 2},
        "": {
            "measure.ceiling": False,
            "evaluate.out_of_bag": False,
            "ensemble.members": 1,
            "ensemble.workers": 1,
        },
    },
    repeats=1,
)
