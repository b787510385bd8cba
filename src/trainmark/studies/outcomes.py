"""Outcomes: the Results of a study by point and round, and what they say together."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trainmark.collect.build import read_run
from trainmark.collect.measured import Measured
from trainmark.collect.speed_warnings import MAX_OTHERS, share_of_others
from trainmark.collect.statistics import median_interval
from trainmark.spec.config import Setting
from trainmark.spec.errors import TrainmarkError, without_advice
from trainmark.spec.failures import LOSS_BECAME
from trainmark.spec.metrics import metric_rows
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.units import counted
from trainmark.studies.point import Point

FEWEST_FOR_INTERVAL = 6  # repeats; with fewer, the interval is min–max
FEWEST_FOR_VERDICT = 5  # undisturbed rounds: all five are on one side of 1 by chance in 1 of 16 cases, three in 1 of 4
OUT_OF_MEMORY, DIVERGED = "out of memory", "diverged"
# What failed runs find out, and what their reasons then say: answers, not accidents, so such runs are not repeated.
ANSWERS = {OUT_OF_MEMORY: OUT_OF_MEMORY, DIVERGED: LOSS_BECAME.lower()}
NO_RUNS = "no runs: computed from the settings"
SINGLE_RUNS = "single runs, without intervals"
INTERVAL = "intervals: 95 % of the median from six runs on, else the smallest and the largest"


class Summary(NamedTuple):
    """Median of the repeats with its interval, their number, and their spread: (largest − smallest) / median."""

    value: float
    low: float
    high: float
    n: int = 1
    spread: float = 0.0
    busy: int = 0  # of ratios and differences: rounds of which a run shared its cores with other processes

    def is_told(self, level: float) -> bool:
        """Whether it differs from a level by more than the noise: by its interval, in five undisturbed rounds."""
        return self.n - self.busy >= FEWEST_FOR_VERDICT and not self.low <= level <= self.high

    def scaled(self, factor: float) -> "Summary":
        """Returns the summary times a positive factor."""
        return self._replace(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def shifted(self, by: float) -> "Summary":
        """Returns the summary plus a number; the spread stays that of the unshifted values."""
        return self._replace(value=self.value + by, low=self.low + by, high=self.high + by)


def summarise(values: Iterable[float | None]) -> Summary | None:
    """Returns the summary of the values that exist; None without any."""
    found = np.array([value for value in values if value is not None], np.float64)
    if not len(found):
        return None
    interval = median_interval(found) if len(found) >= FEWEST_FOR_INTERVAL else None
    median, least, most = float(np.median(found)), float(found.min()), float(found.max())
    return Summary(median, *(interval or (least, most)), len(found), (most - least) / abs(median) if median else 0.0)


@dataclass(frozen=True)
class Outcome:
    """One run of a point: its Result, or why it has none."""

    round: int
    run_id: str
    result: Result | None = None
    reason: str | None = None
    folder: RunFolder | None = None

    @property
    def answer(self) -> str | None:
        """What a run without a Result found out, so that it is not repeated; of a killed rank that is not known."""
        if self.result is not None:
            return None
        reason = (self.reason or "").lower().replace(f"probably {OUT_OF_MEMORY}", "")
        return next((answer for answer, said in ANSWERS.items() if said in reason), None)

    def value(self, metric: str) -> float | None:
        """Returns a metric's value; None if the run or the metric has none."""
        found = self.result.metrics.get(metric) if self.result else None
        return found.value if found else None

    def detail(self, metric: str) -> dict[str, Any]:
        """Returns a metric's details; empty if there are none."""
        found = self.result.metrics.get(metric) if self.result else None
        return (found.detail if found else None) or {}

    @property
    def others(self) -> float:
        """The largest share of a member's core time that other processes took; 0 if it is not known."""
        return max(share_of_others(self.result.metrics).values(), default=0.0) if self.result else 0.0

    @property
    def is_busy(self) -> bool:
        """Whether the run shared its cores with other processes, so that its Result warns of it."""
        return self.others > MAX_OTHERS

    def measured(self) -> Measured | str:
        """Reads events, series and predictions of a complete run from its folder; returns why if it cannot."""
        if self.result is None or self.folder is None:
            return self.reason or "not run yet"
        try:
            return read_run(self.folder)
        except TrainmarkError as error:  # damaged since
            return str(error)

    def why_not(self, metric: str) -> str | None:
        """Returns why there is no value."""
        if self.result is None:
            return self.reason
        found = self.result.metrics.get(metric)
        return found.reason if found else f"this Result has no {metric}"


Quantity = str | Callable[[Outcome], float | None]  # a metric, or a figure computed from a run


@dataclass(frozen=True)
class PointOutcomes:
    """All repeats of one point."""

    point: Point
    runs: tuple[Outcome, ...] = ()
    refused: str | None = None  # why it was never started

    @property
    def at(self) -> Mapping[str, Setting]:
        """Where the point is on the axes."""
        return self.point.at

    def values(self, metric: str) -> list[float | None]:
        """Returns the metric of each round."""
        return [run.value(metric) for run in self.runs]

    def summary(self, metric: str) -> Summary | None:
        """Returns median, interval and n of a metric; None if no run has it."""
        return summarise(self.values(metric))

    def ratio(self, base: "PointOutcomes", quantity: Quantity) -> Summary | None:
        """Returns the quantity over that of another point, each within one round."""
        return self._over_rounds(base, quantity, lambda value, other: value / other if other else None)

    def difference(self, base: "PointOutcomes", quantity: Quantity) -> Summary | None:
        """Returns the quantity minus that of another point, each within one round."""
        return self._over_rounds(base, quantity, lambda value, other: value - other)

    def _over_rounds(
        self, base: "PointOutcomes", quantity: Quantity, compare: Callable[[float, float], float | None]
    ) -> Summary | None:
        """Compares the quantity here and at the base in each round that has both."""

        def of(run: Outcome) -> float | None:
            return run.value(quantity) if isinstance(quantity, str) else quantity(run)

        # Other processes cost time, not quality or memory.
        is_of_time = (
            not isinstance(quantity, str) or re.search(r"(^|/)s(/|$)", metric_rows()[quantity].unit) is not None
        )
        of_base = {run.round: run for run in base.runs}
        found, busy = list[float](), 0
        for run in self.runs:
            other = of_base.get(run.round)
            values = of(run), of(other) if other else None
            compared = None if values[0] is None or values[1] is None else compare(values[0], values[1])
            if compared is not None and other is not None:
                found.append(compared)
                busy += is_of_time and (run.is_busy or other.is_busy)
        summary = summarise(found)
        return summary._replace(busy=busy) if summary else None

    def ratio_of(self, metric: str, other: str) -> Summary | None:
        """Returns one metric over another of the same run."""
        pairs = [(run.value(metric), run.value(other)) for run in self.runs]
        return summarise(value / below for value, below in pairs if value is not None and below)

    def detail_summary(self, metric: str, key: str) -> Summary | None:
        """Returns median and interval of a number in a metric's details."""
        return summarise(run.detail(metric).get(key) for run in self.runs)

    def results(self) -> list[Result]:
        """Returns the Results that exist."""
        return [run.result for run in self.runs if run.result is not None]

    @property
    def gap(self) -> str | None:
        """Why the point has no Result; None if it has one."""
        if self.results():
            return None
        if self.refused:
            return without_advice(self.refused)
        failed = next((run for run in self.runs if run.reason), None)
        if failed is None:
            return "not run yet"
        return f"{DIVERGED}: {failed.reason}" if failed.answer == DIVERGED else failed.reason


@dataclass(frozen=True)
class Outcomes:
    """All points of a study."""

    points: tuple[PointOutcomes, ...]
    repeats: int = 1
    max_spread: float = 0.10
    axes: Mapping[str, Sequence[Setting]] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)  # settings of all points, nested
    site: Site | None = None  # None: not known, as of written-out outcomes

    def where(self, **coordinates: Setting) -> list[PointOutcomes]:
        """Returns the points at these coordinates."""
        return [point for point in self.points if all(point.at.get(k) == v for k, v in coordinates.items())]

    def first(self, **coordinates: Setting) -> PointOutcomes | None:
        """Returns the first point at these coordinates that has a Result."""
        return next((point for point in self.where(**coordinates) if point.results()), None)

    def measured(self) -> dict[str, Measured | str]:
        """Reads the folders of all runs, by run id."""
        return {run.run_id: run.measured() for point in self.points for run in point.runs}

    def unread(self, measured: Mapping[str, Measured | str]) -> list[str]:
        """Says which complete runs could not be read."""
        runs = [run for point in self.points for run in point.runs if run.result is not None]
        return [f"{run.run_id} cannot be read: {why}" for run in runs if isinstance(why := measured[run.run_id], str)]

    @cached_property
    def results(self) -> list[Result]:
        """All Results."""
        return [result for point in self.points for result in point.results()]

    def best(self, metric: str, choose: Callable[..., Any] = max) -> PointOutcomes | None:
        """Returns the point with the best median of a metric."""
        found = [(summary.value, point) for point in self.points if (summary := point.summary(metric))]
        return choose(found, key=lambda pair: pair[0])[1] if found else None

    @property
    def machine(self) -> str:
        """Machine and software in one line, from the first Result."""
        if not self.results:
            return "no run has a Result"
        result = self.results[0]
        accelerators = [str(each.get("name")) for each in result.machine.get("accelerators", [])]
        what = ", ".join(accelerators) if accelerators else f"{result.machine.get('cpu', 'unknown CPU')}"
        cores = f"{counted(result.plan.cores, 'core')} on " if result.plan.cores else ""
        engine = result.config.train.engine
        return f"{what}, {cores}{result.plan.site}; {engine} {result.software.get(engine, '')}".strip()

    @property
    def caption(self) -> str:
        """Machine, number of runs per point, what the intervals are, and how many runs were disturbed."""
        return self.caption_with(INTERVAL)

    def caption_with(self, intervals: str) -> str:
        """The caption of a table whose intervals are others; single runs have none but such."""
        if not self.points:
            return NO_RUNS
        counts = sorted({len(point.results()) for point in self.points if point.results()})
        n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}" if counts else "0"
        intervals = SINGLE_RUNS if counts == [1] and intervals == INTERVAL else intervals
        busy = busy_runs([run for point in self.points for run in point.runs])
        return "; ".join([self.machine, f"n = {n} per point", intervals, *([busy] if busy else [])])


def busy_runs(runs: Iterable[Outcome]) -> str | None:
    """`2 of 2 runs on busy cores (others took up to 69 %)`; None if none was."""
    ended = [run for run in runs if run.result is not None]
    busy = [run.others for run in ended if run.is_busy]
    what = f"{len(busy)} of {counted(len(ended), 'run')} on busy cores"
    return f"{what} (others took up to {100 * max(busy):.0f} %)" if busy else None
