"""`batching` (beside HRVS, whose batches are random): what batches of like shapes do to quality and training time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trainmark.report.bars import Bars
from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.spec.event_files import read_events
from trainmark.spec.events import EpochStop, Evaluation
from trainmark.spec.table import Table
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes, Summary, summarise
from trainmark.studies.point import Point
from trainmark.studies.size_and_shape import STRATEGIES
from trainmark.studies.size_and_shape_figures import RANDOM, RATIO
from trainmark.studies.study import Axis, Overrides, Request, Study
from trainmark.studies.tables import Measure, bars_of, build_table, difference, figure, metric, ratio
from trainmark.studies.target import quality_of_all, runs_at_target, target_quality, to_target
from trainmark.studies.verdict import between

QUALITY, EPOCH_TIME, TIME = "quality_ensemble", "epoch_time_s", "time_to_train_all_s"
PIXELS = "megapixels_per_step"
CHANGE, SHARE = "quality_over_random", "epoch_time_over_random"


def _points(request: Request) -> list[Point]:
    (strategies,) = (axis.values(request) for axis in BATCHING.axes)
    return [
        Point(at={"batching": strategy}, settings={**_workload(request), "train.batching": strategy})
        for strategy in strategies
    ]


def _workload(request: Request) -> Overrides:
    """The workload of unlike images; it has no size `full`, so that its medium resolution stands for it."""
    is_full = request.base.size == "full" and request.base.dataset == "artworks"
    return {"workload": "artworks", "size": "mr"} if is_full else {}


class Learning(NamedTuple):
    """Seconds trained before each evaluation of a run, and its quality."""

    seconds: list[float]
    quality: list[float]


def learning_of(run: Outcome) -> Learning | None:
    """Returns the evaluations of the first member from its events; None if they are not here or it was restarted."""
    if run.result is None or run.folder is None or not run.result.members or run.result.members[0].restarted:
        return None
    first = run.result.members[0]
    events, _ = read_events(run.folder.attempt(first.member, first.attempts).rank_events(0))
    trained = {event.epoch: event.epoch_s for event in events if isinstance(event, EpochStop)}
    found = [event for event in events if isinstance(event, Evaluation)]
    if not found:
        return None
    seconds = [sum(epoch_s for epoch, epoch_s in trained.items() if epoch <= event.epoch) for event in found]
    return Learning(seconds, [event.quality for event in found])


def _curve_of(point: PointOutcomes) -> dict[str, Any] | None:
    """Medians over the rounds of time and quality at each evaluation that all have, and the range of quality."""
    runs = [found for run in point.runs if (found := learning_of(run))]
    if not runs:
        return None
    count = min(len(run.quality) for run in runs)
    seconds, quality = (np.array([getattr(run, part)[:count] for run in runs]) for part in Learning._fields)
    return {
        "batching": point.at["batching"],
        "seconds": np.median(seconds, axis=0).tolist(),
        "quality": np.median(quality, axis=0).tolist(),
        "low": quality.min(axis=0).tolist(),
        "high": quality.max(axis=0).tolist(),
    }


def _num_steps(point: PointOutcomes) -> Summary | None:
    """Updates of the weights: a budget of pixels makes other steps than a number of images."""
    found = (result.metrics.get(PIXELS) for result in point.results())
    return summarise(float(each.n) for each in found if each is not None and each.n is not None)


def _all_pixels(name: str, label: str) -> Measure:
    """Megapixels of the whole training."""
    return Measure(name, "MP", label, lambda point: point.detail_summary(RATIO, name), source=RATIO)


def _measures(outcomes: Outcomes) -> list[Measure]:
    def random(point: PointOutcomes) -> PointOutcomes | None:
        return outcomes.first(batching=RANDOM)

    return [
        quality_of_all(QUALITY),
        difference(CHANGE, QUALITY, random, f"quality − {RANDOM}"),
        metric(EPOCH_TIME, "time per epoch"),
        ratio(SHARE, EPOCH_TIME, random, f"time per epoch / {RANDOM}"),
        metric(TIME, "time to train"),
        _all_pixels("total_megapixels", "pixels"),
        _all_pixels("informative_megapixels", "informative pixels"),
        metric(RATIO, "total / informative"),
        Measure("updates", "steps", "updates", _num_steps, source=PIXELS),
        to_target("time_to_target_s"),
        runs_at_target(),
    ]


def _analyse(outcomes: Outcomes) -> Table:
    facts = {
        "target": target_quality(outcomes),
        "curves": [found for point in outcomes.points if (found := _curve_of(point))],
    }
    return build_table(outcomes, _measures(outcomes), _verdicts(outcomes), facts)


def _verdicts(outcomes: Outcomes) -> Iterator[str]:
    """`nearest: quality is lower than that of random: -0.03 (-0.05 to -0.01), n = 5; an epoch takes 0.4 of …`."""
    base = outcomes.first(batching=RANDOM)
    for point in outcomes.points if base else ():
        assert base is not None
        changed, taken = point.difference(base, QUALITY), point.ratio(base, EPOCH_TIME)
        if point is not base and changed and taken:
            yield f"{point.at['batching']}: {_learns(changed)}; {_takes(taken)}"


def _learns(changed: Summary) -> str:
    if not changed.is_told(0):
        return f"cannot tell whether it learns other than {RANDOM}: quality differs by {between(changed)}"
    return f"quality is {'higher' if changed.value > 0 else 'lower'} than that of {RANDOM}: {between(changed)}"


def _takes(taken: Summary) -> str:
    what = f"an epoch takes {between(taken)} of the time"
    return what if taken.is_told(1) else f"cannot tell whether it is faster: {what}"


def _figures(table: Table) -> list[Figure]:
    target = table.facts.get("target")
    line = () if target is None else (Reference("target", target),)
    curves = tuple(map(_curve, table.facts.get("curves", [])))
    over_time = Plot("", "time in epochs (s)", "quality", curves, line, x_range=(0, None))
    change = Plot(
        f"quality − {RANDOM}, same seed",
        "batching",
        "difference",
        references=(Reference(RANDOM, 0.0),),
        bars=(_bars(table, CHANGE),),
    )
    time = Plot("time per epoch", "batching", "s", bars=(_bars(table, EPOCH_TIME),), y_range=(0, None))
    text = f"Quality after equal epochs against {RANDOM} batches of the same seed, and time per epoch, by strategy"
    curve_text = "Quality at each evaluation over the time spent in epochs, median and range of the seeds, by strategy"
    return [
        figure(table, "batching", "Batching and learning", text, [change, time]),
        figure(table, "batching-over-time", "Quality over training time", curve_text, [over_time]),
    ]


def _curve(series: dict[str, Any]) -> Curve:
    seconds, quality, low, high = (np.array(series[part], np.float64) for part in ("seconds", "quality", "low", "high"))
    return Curve(str(series["batching"]), seconds, quality, low, high)


def _bars(table: Table, column: str) -> Bars:
    return bars_of("", [str(row["batching"]) for row in table.rows], table.rows, column)


BATCHING = Study(
    name="batching",
    title="Batching and learning",
    description="quality after equal epochs and training time by batching strategy, over seeds",
    documents="HRVS Table 1",
    axes=(
        Axis(
            "batching",
            "which images share a batch",
            fixed(*STRATEGIES),
            smallest=fixed(RANDOM, "nearest"),
            kind=str,
            setting="train.batching",
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "smallest": {"train.epochs": 1},
        "": {
            "dataset": "artworks",
            "measure.ceiling": False,
            "evaluate.out_of_bag": False,
            "ensemble.members": 1,
            "ensemble.workers": 1,
            "launch.checkpoint_epochs": 0,
        },
        **{size: {"workload": "artworks"} for size in ("tiny", "mr", "hr")},
    },
    repeats=5,
)
