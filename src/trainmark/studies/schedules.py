"""`schedules` (GUIDE Fig. 22): the learning rate of each schedule as it will be; loss and quality if trained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import steps_per_epoch
from trainmark.data.facts import facts_of
from trainmark.plan.explain import Source
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import resolve_config
from trainmark.report.bars import PALETTE
from trainmark.report.drawing import Curve, Figure, Plot, Reference
from trainmark.report.plots import quality_over_epochs
from trainmark.spec.config import RunChoices, RunConfig, Setting, TrainChoices
from trainmark.spec.event_files import read_events
from trainmark.spec.events import EpochStop, Event, Steps
from trainmark.spec.layout import global_batch
from trainmark.spec.length import scheduled_steps
from trainmark.spec.registries import DATASETS
from trainmark.spec.registries import SCHEDULES as RATES
from trainmark.spec.site import Site
from trainmark.spec.table import Cell, Column, Table
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import Measure, build_table, figure, metric
from trainmark.studies.verdict import verdict
from trainmark.workloads.learning_rate import Progress, learning_rate

QUALITY = "quality_member_mean"
COLLAPSED, CONSTANT_WARMUP = "collapsed", "constant-warmup"  # the recipe's schedule with another end, or begin
COLLAPSED_SHARE = 0.1  # of the epochs, unless the recipe has a collapse of its own
MOST_POINTS = 2000  # per curve of the learning rate
BINS_PER_EPOCH = 10  # of the loss, which is noisy

Series = tuple[list[float], list[float]]  # epochs, values


def _names() -> list[str]:
    return [*RATES.in_listed_order(), COLLAPSED, CONSTANT_WARMUP]


def variant_of(name: str, train: TrainChoices) -> dict[str, Setting]:
    """The settings of `train` that make the schedule."""
    if name == COLLAPSED:
        return {"collapse_epochs": train.collapse_epochs or COLLAPSED_SHARE * train.epochs}
    return {"warmup": "constant"} if name == CONSTANT_WARMUP else {"schedule": name}


def config_of(choices: RunChoices, name: str, site: Site) -> RunConfig:
    """The fully resolved config of one member with this schedule."""
    train = choices.train.model_copy(update=variant_of(name, choices.train))
    ensemble = choices.ensemble.model_copy(update={"members": 1, "system_scale": None})
    return make_plan(choices.model_copy(update={"train": train, "ensemble": ensemble}), site)[0]


def rates_of(config: RunConfig) -> Series:
    """The learning rate over epochs, at evenly spaced steps, for as many samples as the dataset has."""
    kind = DATASETS.load(config.dataset)
    num_train = facts_of(kind(kind.Settings.model_validate(config.data))).num_train or 0
    train, workers = config.train, config.ensemble.workers
    per_epoch = steps_per_epoch(num_train, train, workers)
    total, warmup = scheduled_steps(train, per_epoch), train.warmup_epochs * per_epoch
    steps = np.unique(np.linspace(0, total - 1, min(total, MOST_POINTS)).round().astype(int)).tolist()
    schedule, batch = RATES.load(train.schedule), global_batch(train, workers)
    rates = [learning_rate(Progress(step, per_epoch, total, warmup), batch, train, schedule) for step in steps]
    return [step / per_epoch for step in steps], rates


def _points(request: Request) -> list[Point]:
    names, train = (axis.values(request) for axis in SCHEDULES.axes)
    settings = {str(name): variant_of(str(name), request.base.train) for name in names}
    if "yes" not in train:
        for name in settings:
            _ = rates_of(config_of(request.base, name, request.site))  # an error is for before anything is written
        return []
    return [
        Point(
            at={"schedule": name}, settings={"ensemble.members": 1, **{f"train.{key}": v for key, v in chosen.items()}}
        )
        for name, chosen in settings.items()
    ]


def _at(share: float) -> Callable[[Series], float]:
    return lambda series: series[1][min(int(share * len(series[1])), len(series[1]) - 1)]


COLUMNS: tuple[tuple[str, str, Callable[[Series], float]], ...] = (
    ("highest_rate", "highest rate", lambda series: max(series[1])),
    ("mean_rate", "mean", lambda series: float(np.mean(series[1]))),
    ("rate_at_25_percent", "at 25 %", _at(0.25)),
    ("rate_at_50_percent", "at 50 %", _at(0.50)),
    ("rate_at_75_percent", "at 75 %", _at(0.75)),
    ("last_rate", "last", _at(1.0)),
)


def _analyse(outcomes: Outcomes) -> Table:
    if outcomes.site is None:
        raise ValueError("the learning rate depends on the site, which these outcomes do not have")
    choices = resolve_config([Source("the study schedules", dict(outcomes.base))])
    configs = {str(name): config_of(choices, str(name), outcomes.site) for name in outcomes.axes["schedule"]}
    rates = {name: rates_of(config) for name, config in configs.items()}
    facts: dict[str, Any] = {"rates": rates, "target": choices.evaluate.target_quality}
    recipe = _recipe_text(next(iter(configs.values())))
    if not outcomes.points:
        return _computed(rates, outcomes.caption, recipe, facts)
    events = {str(point.at["schedule"]): _events(point) for point in outcomes.points}
    facts |= {
        "loss": {name: loss_of(found) for name, found in events.items()},
        "quality": {name: quality_over_epochs(found) for name, found in events.items()},
    }
    measures = [metric(QUALITY), Measure("last_loss", "", "last loss", lambda point: _last(facts["loss"], point))]
    measures += [
        Measure(name, "", label, lambda point, of=of: of(rates[str(point.at["schedule"])]))  # type: ignore[misc]
        for name, label, of in COLUMNS
    ]
    table = build_table(outcomes, measures, facts=facts)
    found = verdict(outcomes.points, QUALITY, _named, "best in quality")
    return table.model_copy(update={"findings": tuple(each for each in (recipe, found) if each)})


def _named(point: PointOutcomes) -> str:
    quality = point.summary(QUALITY)
    return f"{point.at['schedule']} ({quality.value:.4g})" if quality else str(point.at["schedule"])


def _computed(rates: Mapping[str, Series], caption: str, recipe: str, facts: dict[str, Any]) -> Table:
    columns = (Column("schedule"), *(Column(name, label=label) for name, label, _ in COLUMNS))
    rows: list[dict[str, Cell]] = [
        {"schedule": key, **{name: of(series) for name, _, of in COLUMNS}} for key, series in rates.items()
    ]
    return Table(columns=columns, rows=tuple(rows), caption=caption, findings=(recipe,), facts=facts)


def _recipe_text(config: RunConfig) -> str:
    train = config.train
    batch = global_batch(train, config.ensemble.workers)
    return (
        f"learning rate {train.learning_rate:g} for a batch of {train.reference_batch_size}, {train.rate_scaling} "
        f"scaling to the global batch of {batch}, {train.warmup_epochs:g} of {train.epochs} epochs of warm-up"
    )


def _events(point: PointOutcomes) -> list[Event]:
    """The events of rank 0 in the first run that has a Result."""
    run = next((run for run in point.runs if run.result is not None and run.folder is not None), None)
    if run is None or run.result is None or run.folder is None:
        return []
    member = run.result.members[0]
    return read_events(run.folder.attempt(member.member, member.attempts).rank_events(0))[0]


def loss_of(events: Sequence[Event]) -> Series:
    """The training loss over epochs: the mean of each tenth of an epoch; steps without finite loss are left out."""
    per_epoch = next((each.steps_per_epoch for each in events if isinstance(each, EpochStop)), None) or 1
    blocks = [each for each in events if isinstance(each, Steps)]
    steps = [block.first_step + i for block in blocks for i in range(len(block.loss))]
    losses: NDArray[np.float64] = np.array([loss for block in blocks for loss in block.loss], np.float64)
    bins = np.array(steps, np.int64) * BINS_PER_EPOCH // per_epoch
    found = [(at, losses[(bins == at) & np.isfinite(losses)]) for at in np.unique(bins)]
    kept = [((at + 0.5) / BINS_PER_EPOCH, float(values.mean())) for at, values in found if len(values)]
    return [float(at) for at, _ in kept], [value for _, value in kept]


def _last(series: Mapping[str, Series], point: PointOutcomes) -> float | None:
    values = series[str(point.at["schedule"])][1]
    return values[-1] if values else None


def _figures(table: Table) -> list[Figure]:
    rates: Mapping[str, Series] = table.facts["rates"]
    colours = dict(zip(rates, PALETTE, strict=False))
    schedules = [name for name in rates if name not in (COLLAPSED, CONSTANT_WARMUP)]
    variants = [name for name in rates if name in (COLLAPSED, CONSTANT_WARMUP)]
    plots = [
        Plot(title, "epochs", "learning rate", _curves(rates, names, colours), y_range=(0, None))
        for title, names in (("schedules", schedules), ("warm-up and collapse of the recipe's schedule", variants))
        if names
    ]
    text = "Learning rate of each step as the recipe sets it: scaled with the batch, after warm-up"
    figures = [figure(table, "schedules", "Learning rate schedules", text, plots)]
    if "loss" not in table.facts:
        return figures
    loss = Plot("training loss", "epochs", "loss", _curves(table.facts["loss"], rates, colours), y_range=(0, None))
    target = Reference("target", table.facts["target"])
    quality = Plot("quality", "epochs", "quality", _curves(table.facts["quality"], rates, colours), (target,))
    text = "Training loss (mean of each tenth of an epoch) and quality on held-out samples, of the first run of each"
    return [*figures, figure(table, "schedules-trained", "Loss and quality by schedule", text, [loss, quality])]


def _curves(series: Mapping[str, Series], names: Iterable[str], colours: Mapping[str, str]) -> tuple[Curve, ...]:
    found = [(name, np.array(series[name][0]), np.array(series[name][1])) for name in names]
    return tuple(Curve(name, x, y, colour=colours.get(name)) for name, x, y in found if len(x))


SCHEDULES = Study(
    name="schedules",
    title="Learning rate schedules",
    description="the learning rate of each schedule as it will be, without training; loss and quality if asked",
    documents="GUIDE Fig. 22",
    axes=(
        Axis(
            "schedule",
            f"names from `trainmark list schedules`, {COLLAPSED}, {CONSTANT_WARMUP}",
            lambda request: _names(),
            smallest=lambda request: _names(),
            kind=str,
            setting="train.schedule",
            choices=_names,
        ),
        Axis("train", "yes: also train with each", fixed("no"), kind=str, choices=lambda: ("no", "yes")),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    # Decays at 1/3, 2/3 and 8/9 of the training, and about three cycles.
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False},
        "tiny": {"train.decay_at": "2,4,5.33", "train.cycle_epochs": 2.0},
        "full": {"train.decay_at": "30,60,80", "train.cycle_epochs": 30.0},
    },
    repeats=1,
)
