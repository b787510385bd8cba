"""Pixels of a step, informative and padding, and the time that they take."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured, Member
from trainmark.collect.metrics.speed import BATCHES
from trainmark.collect.statistics import Samples, batches_of_steps, median_interval, ratio_interval, summary
from trainmark.spec.metrics import Figure, MetricRow
from trainmark.spec.model_events import ModelReady
from trainmark.spec.result import Metric
from trainmark.spec.units import show_shape

MEGA = 1e6
VARIES = "is_variable_shape"  # in the details: the table of a run then shows the metric


class Pixels(NamedTuple):
    """Megapixels of each step of a member, of all its workers."""

    informative: Samples
    total: Samples

    @property
    def padding(self) -> Samples:
        """Those added to make the images of a batch as high and as wide as its largest."""
        return self.total - self.informative


def _pixels_of(measured: Measured, member: Member) -> Pixels | str:
    """Returns the recorded pixels; of images of one shape, all are informative; else why there are none."""
    if member.total_px is not None and member.informative_px is not None:
        return Pixels(member.informative_px / MEGA, member.total_px / MEGA)
    ready = member.one(ModelReady)
    shape = ready.input_shape if ready else None
    if shape is None:
        return "the shape of the samples was not recorded"
    if len(shape) != 3:
        return f"samples of {show_shape(shape)} are no images"
    total = measured.samples_of(member) * shape[1] * shape[2] / MEGA
    return Pixels(total, total)


def pixels_of_members(measured: Measured) -> list[Pixels] | str:
    """Returns the pixels of all finished members, or why one has none."""
    if not measured.finished:
        return NO_MEMBER
    found: list[Pixels] = []
    for member in measured.finished:
        pixels = _pixels_of(measured, member)
        if isinstance(pixels, str):
            return pixels
        found.append(pixels)
    return found


def _varies(measured: Measured) -> dict[str, bool]:
    return {VARIES: any(member.total_px is not None for member in measured.finished)}


def _is_shown(metric: Metric) -> bool:
    return bool((metric.detail or {}).get(VARIES))


def _per_step(part: Literal["informative", "padding", "total"], measured: Measured) -> Figure | str:
    found = pixels_of_members(measured)
    if isinstance(found, str):
        return found
    steps: Samples = np.concatenate([getattr(pixels, part) for pixels in found])
    detail = {**summary(steps), **_varies(measured)}
    return Figure(float(np.median(steps)), median_interval(steps), len(steps), detail)


def _row(name: str, label: str, description: str, compute: Callable[[Measured], Figure | str]) -> MetricRow:
    return MetricRow(name, "MP", "neither", label, description, compute, hide_if_unavailable=True, is_shown=_is_shown)


TOTAL = _row(
    "megapixels_per_step",
    "megapixels per step",
    "Megapixels of one step of a member, padding included, median over all steps.",
    partial(_per_step, "total"),
)
INFORMATIVE = _row(
    "informative_megapixels_per_step",
    "informative MP per step",
    "Megapixels of the images of one step of a member, without padding, median over all steps.",
    partial(_per_step, "informative"),
)
PADDING = _row(
    "padding_megapixels_per_step",
    "padding MP per step",
    "Megapixels that pad the images of one step of a member to one shape, median over all steps.",
    partial(_per_step, "padding"),
)


def _ratio(measured: Measured) -> Figure | str:
    found = pixels_of_members(measured)
    if isinstance(found, str):
        return found
    total, informative = (float(sum(getattr(each, part).sum() for each in found)) for part in ("total", "informative"))
    detail = {"total_megapixels": total, "informative_megapixels": informative, **_varies(measured)}
    return Figure(total / informative, n=sum(len(each.total) for each in found), detail=detail)


RATIO = MetricRow(
    "padding_ratio",
    "",
    "lower",
    "total over informative pixels",
    description="All pixels that were computed over those that are not padding; 1 without padding.",
    compute=_ratio,
    hide_if_unavailable=True,
    is_shown=_is_shown,
)


def _seconds(part: Literal["informative", "total"], measured: Measured) -> Figure | str:
    """All time over all pixels of the steady steps: a median of steps would weigh small and large ones alike."""
    found = pixels_of_members(measured)
    if isinstance(found, str):
        return found
    members = measured.finished
    times = [member.in_steady_state(member.step_s) for member in members]
    pixels = [member.in_steady_state(getattr(each, part)) for member, each in zip(members, found, strict=True)]
    paces = np.concatenate(times) / np.concatenate(pixels)
    seconds, megapixels = _sums_of_blocks(times), _sums_of_blocks(pixels)
    return Figure(
        value=float(seconds.sum() / megapixels.sum()),
        ci95=ratio_interval(seconds, megapixels),
        n=len(seconds),
        detail={
            "min": float(paces.min()),
            "max": float(paces.max()),
            "median": float(np.median(paces)),
            "steps": len(paces),
            **_varies(measured),
        },
    )


def _sums_of_blocks(of_members: Sequence[Samples]) -> Samples:
    """Returns the sum of each block of consecutive steps of each member."""
    return np.array([part.sum() for each in of_members for part in batches_of_steps(each, BATCHES)])


SECONDS_PER_MP = MetricRow(
    "seconds_per_megapixel",
    "s/MP",
    "lower",
    "time per megapixel",
    description="Time of the steps in steady state over their megapixels, padding included.",
    compute=partial(_seconds, "total"),
    hide_if_unavailable=True,
    is_shown=_is_shown,
)
SECONDS_PER_INFORMATIVE_MP = MetricRow(
    "seconds_per_informative_megapixel",
    "s/MP",
    "lower",
    "time per informative MP",
    description="Time of the steps in steady state over their megapixels without padding.",
    compute=partial(_seconds, "informative"),
    hide_if_unavailable=True,
    is_shown=_is_shown,
)
