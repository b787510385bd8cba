"""`large-batch` (GUIDE §3.3, §6.2.6–6.3.3): quality and epochs to target over global batch, a curve per rule."""

import math
from collections.abc import Mapping

import numpy as np

from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import RunChoices, Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.table import Table
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import Measure, build_table, curves, figure
from trainmark.studies.target import (
    EPOCHS,
    median_quality,
    median_to_target,
    quality_of_all,
    rate_to_target,
    runs_at_target,
    target_quality,
    to_target,
)
from trainmark.studies.verdict import CANNOT_TELL, between, judged

QUALITY, TOP5 = "quality_ensemble", "top5_ensemble"
RULES = ("linear", "square-root", "lars", "lamb", "collapsed", "cyclic")
# MLPerf's LARS reference, ResNet-50 to 75.9 %: global batch → epochs.
PUBLISHED = {1632: 35.0, 3264: 35.15, 4096: 39.9, 8192: 41.9, 32768: 56.0, 65536: 84.5}
MULTIPLES = {"full": (1, 4, 16, 32, 56)}  # of the reference batch; GUIDE §6.2: 56 × 256 = 896 workers × 16 images
MULTIPLES_OF_OTHERS = (1, 4, 16, 32)
COLLAPSED_SHARE = 5 / 90  # GUIDE §6.2.7: the last 5 of 90 epochs
DESCENTS = 3  # of the cyclic schedule, which ends at the foot of the last


def rule_settings(rule: str, base: RunChoices) -> dict[str, Setting]:
    """Returns what a rule changes of the recipe."""
    epochs, warmup = base.train.epochs, base.train.warmup_epochs
    root: dict[str, Setting] = {"train.rate_scaling": "square-root"}
    known: Mapping[str, dict[str, Setting]] = {
        "linear": {"train.rate_scaling": "linear"},
        "square-root": {**root},
        "lars": {
            **root,
            "train.optimizer": "lars",
            "train.learning_rate": layerwise_rate("lars", base),
            "train.epsilon": 0.0,
            "train.momentum": 0.9,
            "train.schedule": "polynomial",
            "train.decay_power": 2.0,
        },
        "lamb": {**root, "train.optimizer": "lamb", "train.learning_rate": layerwise_rate("lamb", base)},
        "collapsed": {"train.rate_scaling": "linear", "train.collapse_epochs": max(1.0, COLLAPSED_SHARE * epochs)},
        "cyclic": {
            "train.rate_scaling": "linear",
            "train.schedule": "cyclic",
            # d descents and d − 1 ascents of half a cycle each
            "train.cycle_epochs": 2 * max(1.0, epochs - warmup) / (2 * DESCENTS - 1),
        },
    }
    return known[rule]


def layerwise_rate(rule: str, base: RunChoices) -> float:
    """Returns the rate of LARS or LAMB at the reference batch: the published one by the square-root rule."""
    if base.size == "tiny":  # too few steps for the published rates
        return {"lars": 4.0, "lamb": 0.01}[rule]
    # MLPerf's LARS: 7.4 at 1632 images. You et al. 2020: LAMB 0.005 at 512.
    rate, batch = {"lars": (7.4, 1632), "lamb": (0.005, 512)}[rule]
    return rate * math.sqrt(base.train.reference_batch_size / batch)


def passes_of(batch: int, base: RunChoices) -> tuple[int, int]:
    """Returns samples per pass of a worker, at most the recipe's, and passes per step: their product is its share.

    Raises if passes would be so small that batch normalisation, not the batch, makes the difference.
    """
    workers, most = base.ensemble.workers or 1, base.train.batch_size
    share, rest = divmod(batch, workers)
    if rest or not share:
        raise ConfigError(f"--batch {batch} cannot be divided among {workers} workers. Choose a multiple of {workers}.")
    passes = _fewest_passes(share, most)
    if _is_too_small(share, most):
        below, above = (
            next(each for each in range(share + step, 2 * share * (step > 0), step) if not _is_too_small(each, most))
            for step in (-1, 1)
        )
        raise ConfigError(
            f"--batch {batch} can be divided into equal passes of {share // passes} at most, less than half of the "
            f"recipe's {most}: batch normalisation would see too few samples. Choose {below * workers} or "
            f"{above * workers}, or allow larger passes with --set train.batch_size={share}."
        )
    return share // passes, passes


def _fewest_passes(share: int, most: int) -> int:
    return next(n for n in range(max(1, -(-share // most)), share + 1) if share % n == 0)


def _is_too_small(share: int, most: int) -> bool:
    """Whether a share that needs several passes has none of at least half of the most samples."""
    passes = _fewest_passes(share, most)
    return passes > 1 and share // passes < most / 2


def _points(request: Request) -> list[Point]:
    batches, rules = (axis.values(request) for axis in LARGE_BATCH.axes)
    return [_point(str(rule), int(batch), request.base) for rule in rules for batch in batches]


def _point(rule: str, batch: int, base: RunChoices) -> Point:
    per_pass, passes = passes_of(batch, base)
    settings = {"train.batch_size": per_pass, "train.accumulation": passes, **rule_settings(rule, base)}
    return Point(at={"rule": rule, "batch": batch}, settings=settings)


def _of_rule(outcomes: Outcomes, point: PointOutcomes) -> list[PointOutcomes]:
    """All points of the same rule that have a Result, by batch."""
    found = [each for each in outcomes.where(rule=point.at["rule"]) if each.results()]
    return sorted(found, key=lambda each: int(each.at["batch"]))


def quality_change(outcomes: Outcomes) -> Measure:
    """Quality minus that of the rule's smallest batch, within rounds."""

    def of(point: PointOutcomes) -> Summary | None:
        base = next(iter(_of_rule(outcomes, point)), None)
        return point.difference(base, QUALITY) if base and median_quality(point, QUALITY) else None

    return Measure("quality_change", "", "change of quality", of, source=QUALITY)


def fewer_steps(outcomes: Outcomes) -> Measure:
    """Steps to target of the rule's smallest batch that reaches it, over those of this batch: the most that
    data parallelism can gain, on links that cost nothing."""

    def of(point: PointOutcomes) -> Summary | None:
        base = next((each for each in _of_rule(outcomes, point) if median_to_target(each, EPOCHS)), None)
        found = point.ratio(base, rate_to_target) if base and median_to_target(point, EPOCHS) else None
        return found.scaled(int(point.at["batch"]) / int(base.at["batch"])) if base and found else None

    return Measure("fewer_steps", "", "fewer steps to target", of, source=EPOCHS)


def _analyse(outcomes: Outcomes) -> Table:
    measures = [
        quality_of_all(QUALITY),
        quality_of_all(TOP5),
        quality_change(outcomes),
        to_target(EPOCHS),
        runs_at_target(),
        fewer_steps(outcomes),
        Measure("samples_per_pass", "", "samples per pass", _per_pass),
    ]
    rules = dict.fromkeys(point.at["rule"] for point in outcomes.points)
    findings = [_fall(outcomes, str(rule)) for rule in rules]
    return build_table(outcomes, measures, findings, {"target": target_quality(outcomes)})


def _per_pass(point: PointOutcomes) -> float | None:
    found = point.point.settings.get("train.batch_size")
    return None if found is None else float(found)


def _fall(outcomes: Outcomes, rule: str) -> str | None:
    """By how much the quality falls from the smallest to the largest batch."""
    points = [each for each in outcomes.where(rule=rule) if median_quality(each, QUALITY)]
    if len(points) < 2:
        return None
    ends = [pick(points, key=lambda each: int(each.at["batch"])) for pick in (min, max)]
    change = quality_change(outcomes).of(ends[1])
    first, last = (median_quality(end, QUALITY) for end in ends)
    if not isinstance(change, Summary) or first is None or last is None:
        return None
    what = {CANNOT_TELL: f"{CANNOT_TELL} whether quality changes"}
    told = judged(change, 0, "quality rises", "quality falls")
    batches = f"from batch {ends[0].at['batch']} to {ends[1].at['batch']}"
    return f"{rule}: {what.get(told, told)} {batches}: {between(change, '+.3f')}, {first.value:.3f} to {last.value:.3f}"


def _figures(table: Table) -> list[Figure]:
    target = table.facts.get("target")
    line = () if target is None else (Reference("target", target),)
    top1 = _over_batch(table, "quality after equal epochs", "quality", QUALITY, line)
    top5 = _over_batch(table, "top-5 accuracy", "top-5 accuracy", TOP5)
    epochs = _over_batch(table, "epochs to target", "epochs", EPOCHS)
    text = "Quality over the global batch after equal epochs, a curve per rule"
    reason = (
        "Epochs to target over the global batch, and how many times fewer steps that are: the most that data "
        "parallelism can gain. Dotted: MLPerf's LARS reference, as published, from batch 1632 to 65536. Members of an "
        "ensemble keep their batch, so that bagging needs no more epochs at any scale"
    )
    return [
        figure(table, "large-batch-quality", "Quality of large batches", text, [top1, top5]),
        figure(table, "large-batch-epochs", "Epochs of large batches", reason, [epochs, _steps_saved(table)]),
    ]


def _over_batch(table: Table, title: str, unit: str, name: str, lines: tuple[Reference, ...] = ()) -> Plot:
    return Plot(title, "global batch (samples)", unit, curves(table, "batch", name, "rule"), lines, x_scale="log2")


def _steps_saved(table: Table) -> Plot:
    drawn = curves(table, "batch", "fewer_steps", "rule")
    least = min((each.x[0] for each in drawn), default=1.0)
    most = max((each.x[-1] for each in drawn), default=1.0)
    ideal = np.array([least, most])
    batches, epochs = (np.array(list(each), np.float64) for each in (PUBLISHED, PUBLISHED.values()))
    growth = batches / batches[0]
    references = (
        Reference("ideal: as many epochs", ideal / least, ideal),
        # drawn as if its smallest batch were ours
        Reference("MLPerf LARS (published)", growth * epochs[0] / epochs, growth * least),
    )
    return Plot(
        "fewer steps to target",
        "global batch (samples)",
        "times fewer steps",
        drawn,
        references,
        x_scale="log2",
        is_log_y=True,
    )


def _batches(request: Request) -> list[Setting]:
    multiples = MULTIPLES.get(request.base.size, MULTIPLES_OF_OTHERS)
    return [multiple * request.base.train.reference_batch_size for multiple in multiples]


LARGE_BATCH = Study(
    name="large-batch",
    title="Large batches",
    description="quality after equal epochs and epochs to target over global batch, a curve per rule",
    documents="GUIDE §3.3, §6.2.6–6.3.3",
    axes=(
        Axis("batch", "global batch, in samples per step", _batches, lambda r: _batches(r)[:3:2]),
        Axis("rule", f"{', '.join(RULES)}", fixed(*RULES), fixed("linear", "lars"), kind=str, choices=lambda: RULES),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "smallest": {"train.epochs": 1},
        "": {
            "measure.ceiling": False,
            "evaluate.out_of_bag": False,
            "ensemble.members": 1,
            "ensemble.workers": 1,
            "launch.checkpoint_epochs": 0,
        },
        "full": {"train.batch_norm_momentum": 0.05, "launch.checkpoint_epochs": 1},  # GUIDE §6.2.6: 0.95 is kept
    },
    repeats=3,
)
