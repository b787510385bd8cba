"""Figures of nodes averaged over the time in which members trained there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.measured import Measured, Member
from trainmark.collect.node_usage import NodeUsage
from trainmark.collect.reasons import NO_MEMBER
from trainmark.spec.machine_events import Usage
from trainmark.spec.result import Better, Metric, unavailable

SWITCHED_OFF = "not measured: measure.usage_seconds is 0"

Numbers = NDArray[np.float64]
Figure = Callable[[Usage], float | None]  # of one sample; None where it does not tell


@dataclass(frozen=True)
class Average:
    """A figure of one node of a member: its mean and its largest value while the member trained."""

    member: Member
    usage: NodeUsage
    mean: float
    most: float
    seconds: float
    samples: int

    def mean_of(self, figure: Figure) -> float | None:
        """The mean of another figure of the same node and time."""
        other = _over_training(self.member, self.usage, figure)
        return None if other is None else other.mean

    def entry(self, figures: dict[str, Any]) -> dict[str, Any]:
        """How the node stands in a metric's detail."""
        place = {"member": self.member.job.member, "node": self.usage.node}
        return {**place, **figures, "samples": self.samples, "series": self.usage.file}


def averages(measured: Measured, figure: Figure, part: str) -> list[Average] | str:
    """A figure of every node of every finished member; in its place the reason why one has none.

    `part` is the part of a sample that the figure is made of.
    """
    if not measured.finished:
        return NO_MEMBER
    if measured.config.measure.usage_seconds == 0:
        return SWITCHED_OFF
    found = []
    for member in measured.finished:
        if len(member.usage) < len(member.job.nodes):
            return f"member {member.job.member} left no series of utilisation for each of its nodes"
        for usage in member.usage:
            average = _over_training(member, usage, figure)
            if average is None:
                return _reason(member, usage, part)
            found.append(average)
    return found


@dataclass(frozen=True)
class UsageMetric:
    """A metric of what nodes are used for: a figure of each, and how those of all nodes become one."""

    unit: str
    better: Better
    part: str  # of a sample, that the figure is made of
    figure: Figure
    join: Callable[[list[Average]], float]
    figures: Callable[[Average], dict[str, Any]]  # of a node, that stand beside

    def compute(self, measured: Measured) -> Metric:
        """The metric, or why there is none."""
        found = averages(measured, self.figure, self.part)
        if isinstance(found, str):
            return unavailable(self.unit, self.better, found)
        return Metric(
            value=self.join(found),
            unit=self.unit,
            better=self.better,
            status="measured",
            n=sum(each.samples for each in found),
            samples_ref=measured.samples_ref,
            detail={"nodes": [each.entry(self.figures(each)) for each in found]},
        )


def mean_over(found: list[Average], weigh: Callable[[NodeUsage], float]) -> float:
    """The mean over nodes, each weighed by its time and by how much of something it has."""
    weights = [each.seconds * weigh(each.usage) for each in found]
    return sum(each.mean * weight for each, weight in zip(found, weights, strict=True)) / sum(weights)


def _over_training(member: Member, usage: NodeUsage, figure: Figure) -> Average | None:
    """Each sample is weighed by how much of it is inside an epoch, after warm-up if any is; None: none at all."""
    figures = [(figure(sample), sample.wall_s - sample.over_s, sample.wall_s) for sample in usage.samples]
    known = np.array([each for each in figures if each[0] is not None], dtype=np.float64).reshape(-1, 3)
    spans = member.training_spans(usage.rank)
    weights = _overlaps(known[:, 1:], without_first(spans, member.warmup_s))
    if not (weights > 0).any():  # so short that there is hardly more than warm-up
        weights = _overlaps(known[:, 1:], spans)
    inside = weights > 0
    if not inside.any():
        return None
    values, weights = known[inside, 0], weights[inside]
    return Average(
        member=member,
        usage=usage,
        mean=float(np.average(values, weights=weights)),
        most=float(values.max()),
        seconds=float(weights.sum()),
        samples=len(values),
    )


def without_first(spans: list[tuple[float, float]], seconds: float) -> list[tuple[float, float]]:
    """What is left of the spans, one after another, when their first `seconds` are cut off."""
    left = []
    for start, stop in spans:
        cut = min(seconds, stop - start)
        seconds -= cut
        if start + cut < stop:
            left.append((start + cut, stop))
    return left


def _overlaps(intervals: Numbers, spans: list[tuple[float, float]]) -> Numbers:
    """The length of each interval that is inside one of the spans."""
    seconds = np.zeros(len(intervals))
    for start, stop in spans:
        seconds += np.clip(np.minimum(intervals[:, 1], stop) - np.maximum(intervals[:, 0], start), 0, None)
    return seconds


def _reason(member: Member, usage: NodeUsage, part: str) -> str:
    told = [usage.start.unavailable, *(sample.unavailable for sample in usage.samples)]
    reason = next((reasons[part] for reasons in told if part in reasons), None)
    return reason or f"no sample of {part} of member {member.job.member} on {usage.node} falls into its training time"
