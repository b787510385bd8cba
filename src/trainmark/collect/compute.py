"""Metrics of a run or of one member, each computed once, from the members that have the data it needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from trainmark.collect.measured import NO_MEMBER, NOT_OVER, Measured, Member
from trainmark.spec.files import one_line
from trainmark.spec.member_state import FINAL_STATES
from trainmark.spec.metrics import MetricRow, Needs
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Metric, unavailable


class MissingData(NamedTuple):
    """Data that a finished member should have and lacks."""

    what: str
    problem: str


class Need(NamedTuple):
    """What a member must have to count, and the reason if none has it."""

    loss: Callable[[Member], MissingData | None]  # of a finished member
    has_begun: Callable[[Member], bool]  # whether a member that has not finished counts so far
    none_so_far: str


def _lost_events(member: Member) -> MissingData | None:
    return None if member.is_whole else MissingData("events", next(iter(member.problems), "unknown"))


def _lost_predictions(member: Member) -> MissingData | None:
    problem = member.predictions_problem
    return None if problem is None else MissingData("predictions", problem)


def _nothing_lost(member: Member) -> None:
    return None


def _never(member: Member) -> bool:
    return False


NONE_FINISHED = f"{NOT_OVER}, and no member has finished"

# By the `needs` of a metric's row.
NEEDS: dict[Needs, Need] = {
    "steps": Need(_lost_events, lambda member: len(member.step_s) > 0, "no member has trained a step so far"),
    "epochs": Need(_lost_events, lambda member: bool(member.epochs), "no member has trained a whole epoch so far"),
    "finished members": Need(_lost_events, _never, NONE_FINISHED),
    "evaluations": Need(_nothing_lost, _never, NONE_FINISHED),  # the last one is also in the completion record
    "predictions": Need(_lost_predictions, _never, NONE_FINISHED),
    "epochs and predictions": Need(lambda each: _lost_events(each) or _lost_predictions(each), _never, NOT_OVER),
    "the end": Need(_lost_events, _never, NOT_OVER),
}
ONLY_AT_THE_END: tuple[Needs, ...] = ("epochs and predictions", "the end")
ONLY_IF_COMPLETE: tuple[Needs, ...] = ("the end",)  # a damaged member may have been the last


@dataclass(frozen=True)
class Counted:
    """The members of a run that count for metrics with one need."""

    measured: Measured
    needs: Needs

    @cached_property
    def lost(self) -> dict[int, MissingData]:
        """Finished members that cannot count, and why."""
        if self.measured.why_no_quality and "predictions" in self.needs:
            return {}  # there are no predictions
        found = {member.job.member: NEEDS[self.needs].loss(member) for member in self.measured.finished}
        return {member: loss for member, loss in found.items() if loss is not None}

    @cached_property
    def view(self) -> Measured:
        """The run as a metric sees it: counted members as if finished, and failed ones."""
        members = [each for member in self.measured.members if (each := self._seen(member)) is not None]
        if not members or [*map(id, members)] == [*map(id, self.measured.members)]:
            return self.measured
        return replace(self.measured, members=tuple(members))

    def _seen(self, member: Member) -> Member | None:
        if member.job.member in self.lost:
            return None
        if member.state in FINAL_STATES:
            return member
        return replace(member, state="finished") if NEEDS[self.needs].has_begun(member) else None

    @property
    def reason(self) -> str | None:
        """Why metrics with this need have no value; None if they can."""
        if self.needs in ONLY_AT_THE_END and not self.measured.is_over:
            return NOT_OVER
        is_none_left = all(member.job.member in self.lost for member in self.view.finished)
        if self.lost and (self.needs in ONLY_IF_COMPLETE or is_none_left):
            member, loss = next(iter(self.lost.items()))
            return f"the {loss.what} of member {member} are damaged: {loss.problem}"
        return None

    def reason_so_far(self, reason: str | None) -> str | None:
        """Returns the metric's reason, or of an unfinished run what is still missing."""
        return NEEDS[self.needs].none_so_far if reason == NO_MEMBER and not self.measured.is_over else reason

    @property
    def left_out(self) -> str:
        """`member 1, whose events are damaged`; empty if all finished members count."""
        parts = []
        for what in dict.fromkeys(loss.what for loss in self.lost.values()):
            members = [str(member) for member, loss in self.lost.items() if loss.what == what]
            parts.append(f"member{'s' * (len(members) > 1)} {', '.join(members)}, whose {what} are damaged")
        return "; ".join(parts)


def _with_notes(metric: Metric, members: Counted) -> Metric:
    """Returns the metric with notes on which members it covers and which it leaves out."""
    if metric.value is None:
        return metric.model_copy(update={"reason": members.reason_so_far(metric.reason)})
    remarks: dict[str, Any] = {}
    if not members.measured.is_over:
        remarks["so_far"] = {"members": len(members.view.finished), "of_members": len(members.measured.members)}
    if members.lost:
        remarks["left_out"] = members.left_out
    return metric.model_copy(update={"detail": {**(metric.detail or {}), **remarks}}) if remarks else metric


def compute_metrics(measured: Measured, names: Iterable[str]) -> dict[str, Metric]:
    """Returns the metrics by name, with notes on the members that they cover."""
    computation = _Computation(measured)
    return {name: computation.metric(name) for name in names}


def compute_metric(name: str, measured: Measured) -> Metric:
    """Computes one metric, and those it builds on, from all given members."""
    return _Computation(measured).of(METRICS.load(name), measured)


class _Computation:
    """Caches metrics for those that build on them; a failing metric does not affect others."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._counted: dict[Needs, Counted] = {}
        self._known: dict[tuple[str, int], Metric] = {}

    def metric(self, name: str) -> Metric:
        """Computes a metric from the members that count for it."""
        row: MetricRow | None = None
        try:
            row = METRICS.load(name)
            members = self._counted.setdefault(row.needs, Counted(self._measured, row.needs))
            if members.reason is not None:
                return row.as_metric(members.reason)
            return _with_notes(self.of(row, members.view), members)
        except Exception as error:  # noqa: BLE001  a failing metric does not affect others
            reason = f"it cannot be computed: {one_line(error)}"
            return unavailable("", "neither", reason) if row is None else row.as_metric(reason)

    def of(self, row: MetricRow, view: Measured) -> Metric:
        """Computes a metric from exactly these members."""
        key = row.name, id(view)  # views live as long as this object
        if key not in self._known:
            builds_on = [self.of(METRICS.load(name), view) for name in row.builds_on]
            try:
                self._known[key] = row.as_metric(row.compute(view, *builds_on))
            except Exception as error:  # noqa: BLE001  see above
                self._known[key] = row.as_metric(f"it cannot be computed: {one_line(error)}")
        return self._known[key]
