"""Metrics of a run or of one member, each computed once, from the members that have left what it needs."""

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


class Loss(NamedTuple):
    """What a finished member should have left and has not."""

    what: str
    problem: str


class Need(NamedTuple):
    """What a member must have left to count, and what is said where none has."""

    loss: Callable[[Member], Loss | None]  # of a finished member
    has_begun: Callable[[Member], bool]  # whether a member that has not finished counts so far
    none_so_far: str


def _lost_events(member: Member) -> Loss | None:
    return None if member.is_whole else Loss("events", next(iter(member.problems), "unknown"))


def _lost_predictions(member: Member) -> Loss | None:
    problem = member.predictions_problem
    return None if problem is None else Loss("predictions", problem)


def _nothing_lost(member: Member) -> None:
    return None


def _never(member: Member) -> bool:
    return False


NONE_FINISHED = f"{NOT_OVER}, and no member has finished"

# By what a metric's row states as needs.
NEEDS: dict[Needs, Need] = {
    "steps": Need(_lost_events, lambda member: len(member.step_s) > 0, "no member has trained a step so far"),
    "epochs": Need(_lost_events, lambda member: bool(member.epochs), "no member has trained a whole epoch so far"),
    "finished members": Need(_lost_events, _never, NONE_FINISHED),
    "evaluations": Need(_nothing_lost, _never, NONE_FINISHED),  # the last one is in the completion record, too
    "predictions": Need(_lost_predictions, _never, NONE_FINISHED),
    "epochs and predictions": Need(lambda each: _lost_events(each) or _lost_predictions(each), _never, NOT_OVER),
    "the end": Need(_lost_events, _never, NOT_OVER),
}
ONLY_AT_THE_END: tuple[Needs, ...] = ("epochs and predictions", "the end")
ONLY_OF_ALL: tuple[Needs, ...] = ("the end",)  # who knows whether a damaged member was the last


@dataclass(frozen=True)
class Counted:
    """The members of a run that count for metrics with one need."""

    measured: Measured
    needs: Needs

    @cached_property
    def lost(self) -> dict[int, Loss]:
        """The finished members that cannot count, and why."""
        if self.measured.is_synthetic and "predictions" in self.needs:
            return {}  # there are none, and none are missed
        found = {member.job.member: NEEDS[self.needs].loss(member) for member in self.measured.finished}
        return {member: loss for member, loss in found.items() if loss is not None}

    @cached_property
    def view(self) -> Measured:
        """The run as a metric sees it: members that count as if they had finished, and those that failed."""
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
        """Why no metric with this need can have a value; None where it can."""
        if self.needs in ONLY_AT_THE_END and not self.measured.is_over:
            return NOT_OVER
        is_none_left = all(member.job.member in self.lost for member in self.view.finished)
        if self.lost and (self.needs in ONLY_OF_ALL or is_none_left):
            member, loss = next(iter(self.lost.items()))
            return f"the {loss.what} of member {member} are damaged: {loss.problem}"
        return None

    def reason_so_far(self, reason: str | None) -> str | None:
        """A metric's own reason; of a run that is not over, what is still to come."""
        return NEEDS[self.needs].none_so_far if reason == NO_MEMBER and not self.measured.is_over else reason

    @property
    def left_out(self) -> str:
        """`member 1, whose events are damaged`; empty where every finished member counts."""
        parts = []
        for what in dict.fromkeys(loss.what for loss in self.lost.values()):
            members = [str(member) for member, loss in self.lost.items() if loss.what == what]
            parts.append(f"member{'s' * (len(members) > 1)} {', '.join(members)}, whose {what} are damaged")
        return "; ".join(parts)


def _with_remarks(metric: Metric, members: Counted) -> Metric:
    """The metric, with what a reader must know of the members that it is made of, and of those that it is not."""
    if metric.value is None:
        return metric.model_copy(update={"reason": members.reason_so_far(metric.reason)})
    remarks: dict[str, Any] = {}
    if not members.measured.is_over:
        remarks["so_far"] = {"members": len(members.view.finished), "of_members": len(members.measured.members)}
    if members.lost:
        remarks["left_out"] = members.left_out
    return metric.model_copy(update={"detail": {**(metric.detail or {}), **remarks}}) if remarks else metric


def compute_metrics(measured: Measured, names: Iterable[str]) -> dict[str, Metric]:
    """The metrics by name, with what a reader must know of the members that they are made of."""
    computation = _Computation(measured)
    return {name: computation.metric(name) for name in names}


def compute_alone(name: str, measured: Measured) -> Metric:
    """One metric of these members as they are, and of what it builds on."""
    return _Computation(measured).of(METRICS.load(name), measured)


class _Computation:
    """Keeps what was computed of the same members, for the metrics that build on it; no metric costs another."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._counted: dict[Needs, Counted] = {}
        self._known: dict[tuple[str, int], Metric] = {}

    def metric(self, name: str) -> Metric:
        """The metric of the members that count for it."""
        row: MetricRow | None = None
        try:
            row = METRICS.load(name)
            members = self._counted.setdefault(row.needs, Counted(self._measured, row.needs))
            if members.reason is not None:
                return row.as_metric(members.reason)
            return _with_remarks(self.of(row, members.view), members)
        except Exception as error:  # noqa: BLE001  one figure that cannot be computed costs no other
            reason = f"it cannot be computed: {one_line(error)}"
            return unavailable("", "neither", reason) if row is None else row.as_metric(reason)

    def of(self, row: MetricRow, view: Measured) -> Metric:
        """The metric of just these members."""
        key = row.name, id(view)  # views live as long as this object
        if key not in self._known:
            builds_on = [self.of(METRICS.load(name), view) for name in row.builds_on]
            try:
                self._known[key] = row.as_metric(row.compute(view, *builds_on))
            except Exception as error:  # noqa: BLE001  see above
                self._known[key] = row.as_metric(f"it cannot be computed: {one_line(error)}")
        return self._known[key]
