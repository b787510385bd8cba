"""Which members a metric is made of: those that have left what it needs, also of a run that is not over."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from trainmark.collect.measured import Measured, Member
from trainmark.collect.reasons import NO_MEMBER, NOT_OVER
from trainmark.spec.member_state import SETTLED


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

# What a metric's module states as NEEDS; "steps" where it states nothing.
NEEDS = {
    "steps": Need(_lost_events, lambda member: len(member.step_s) > 0, "no member has trained a step so far"),
    "epochs": Need(_lost_events, lambda member: bool(member.epochs), "no member has trained a whole epoch so far"),
    "finished members": Need(_lost_events, _never, NONE_FINISHED),
    "evaluations": Need(_nothing_lost, _never, NONE_FINISHED),  # the last one is in the completion record, too
    "predictions": Need(_lost_predictions, _never, NONE_FINISHED),
    "epochs and predictions": Need(lambda each: _lost_events(each) or _lost_predictions(each), _never, NOT_OVER),
    "the end": Need(_lost_events, _never, NOT_OVER),
}
ONLY_AT_THE_END = ("epochs and predictions", "the end")
ONLY_OF_ALL = ("the end",)  # who knows whether a damaged member was the last


@dataclass(frozen=True)
class Counted:
    """The members of a run that count for metrics with one need."""

    measured: Measured
    needs: str

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
        if member.state in SETTLED:
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
