"""Measured: a run's events, read back and put in order, member by member."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.predictions import Predictions, Problem, problem_with
from trainmark.collect.statistics import SteadyState, find_steady_state, union_length
from trainmark.spec.config import RunConfig
from trainmark.spec.event_files import E
from trainmark.spec.events import (
    DataReady,
    EpochStart,
    EpochStop,
    Evaluation,
    Event,
    ModelReady,
    Resumed,
    SampleFlops,
    Steps,
)
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.member_state import FINAL_STATES
from trainmark.spec.plan import Job, Plan
from trainmark.spec.registries import DATASETS
from trainmark.spec.status import MemberState

NO_MEMBER = "no member finished"
NOT_OVER = "the run is not over"


class NodeUsage(NamedTuple):
    """The series of one node of a member; `rank` is the one that sampled it, `file` its name in the run folder."""

    node: str
    rank: int
    file: str
    start: UsageStart
    samples: tuple[Usage, ...]
    problem: Problem = None


class Epoch(NamedTuple):
    """One epoch of a member: when it began, how long it took, how many samples its workers processed together."""

    epoch: int
    start_s: float
    epoch_s: float
    samples: int
    harness_s: float


@dataclass(frozen=True)
class Member:
    """What the counted (newest) attempt at a member measured."""

    job: Job
    attempts: int
    state: MemberState
    reason: str | None
    exit: dict[str, Any] | None
    events: tuple[tuple[Event, ...], ...]
    load_predictions: Callable[[], Predictions]
    load_usage: Callable[[], tuple[NodeUsage, ...]] = tuple
    problems: tuple[str, ...] = ()  # with its files
    is_whole: bool = True  # False: it finished, but some of its events are gone
    final_quality: float | None = None  # by its completion record
    predictions_file: str = "predictions.npz"

    def all_of(self, kind: type[E], rank: int = 0) -> list[E]:
        """A rank's events of one kind."""
        return [event for event in self.events[rank] if isinstance(event, kind)] if self.events else []

    def one(self, kind: type[E], rank: int = 0) -> E | None:
        """A rank's newest event of one kind."""
        return next(reversed(self.all_of(kind, rank)), None)

    def of_all_ranks(self, kind: type[E]) -> list[E]:
        """Every rank's events of one kind, rank after rank."""
        return [event for rank in self.job.ranks for event in self.all_of(kind, rank.rank)]

    @property
    def last_event_s(self) -> float | None:
        """When the member was last heard of; None if it failed before its first event."""
        return max((event.wall_s for of_rank in self.events for event in of_rank), default=None)

    @cached_property
    def was_restarted(self) -> bool:
        """Whether the counted attempt went on from an earlier one's checkpoint."""
        return bool(self.all_of(Resumed))

    @cached_property
    def epochs(self) -> list[Epoch]:
        """The epochs that the counted attempt trained to their end."""
        starts = {event.epoch: event.wall_s for event in self.all_of(EpochStart)}
        return [
            Epoch(stop.epoch, starts[stop.epoch], stop.epoch_s, stop.samples, stop.harness_s)
            for stop in self.all_of(EpochStop)
            if stop.epoch in starts
        ]

    def training_spans(self, rank: int) -> list[tuple[float, float]]:
        """When a rank was inside an epoch, by its own wall clock."""
        starts = {event.epoch: event.wall_s for event in self.all_of(EpochStart, rank)}
        stops = self.all_of(EpochStop, rank)
        ended = [(starts[stop.epoch], stop.epoch_s) for stop in stops if stop.epoch in starts]
        spans = [(start_s, start_s + epoch_s) for start_s, epoch_s in ended]
        return [*spans, *self._open_span(rank)]

    def _open_span(self, rank: int) -> list[tuple[float, float]]:
        """From the beginning of an epoch that has not ended to its newest steps; none of a member that has finished."""
        begun, blocks = self.one(EpochStart, rank), self.one(Steps, rank)
        ended = {stop.epoch for stop in self.all_of(EpochStop, rank)}
        if begun is None or blocks is None or begun.epoch in ended or blocks.wall_s < begun.wall_s:
            return []
        return [(begun.wall_s, blocks.wall_s)]

    @cached_property
    def warmup_s(self) -> float:
        """How long the member's warm-up took: its first steps (their waits are in them), and what is compiled there."""
        return float(self.step_s[: self.steady.warmup_steps].sum())

    @cached_property
    def usage(self) -> tuple[NodeUsage, ...]:
        """What it used of its nodes over time."""
        return self.load_usage()

    @property
    def span(self) -> tuple[float, float]:
        """From the beginning of the first epoch to the end of the last one, or to the newest steps of one under way."""
        spans = self.training_spans(0)
        return spans[0][0], spans[-1][1]

    @cached_property
    def predictions_problem(self) -> Problem:
        """What is wrong with its predictions; None where they can be used."""
        return problem_with(self.load_predictions, self.predictions_file)

    @cached_property
    def step_s(self) -> NDArray[np.float64]:
        """The duration of every step of rank 0."""
        return np.array([value for block in self.all_of(Steps) for value in block.step_s], dtype=np.float64)

    @cached_property
    def wait_s(self) -> NDArray[np.float64]:
        """How long every step of rank 0 waited for its batch."""
        return np.array([value for block in self.all_of(Steps) for value in block.wait_s], dtype=np.float64)

    @cached_property
    def steady(self) -> SteadyState:
        """Where this member's warm-up ends."""
        return find_steady_state(self.step_s)

    def flop_counts(self) -> dict[str, SampleFlops]:
        """The FLOP counts of the member's model, by convention."""
        event = self.one(ModelReady)
        if event is None:
            raise LookupError(f"member {self.job.member} has recorded no model")
        return event.conventions

    @cached_property
    def proposals_per_image(self) -> float:
        """How many proposals of a detector were classified in training, per image; 0 for models that make none."""
        epochs = [stop for stop in self.of_all_ranks(EpochStop) if stop.images_seen]
        images = sum(stop.images_seen or 0 for stop in epochs)
        return sum(stop.proposals_seen or 0 for stop in epochs) / images if images else 0.0

    def training_flop_per_sample(self) -> dict[str, float]:
        """By convention; a detector's proposals are counted as often as training made them."""
        return {name: count.training_with(self.proposals_per_image) for name, count in self.flop_counts().items()}

    def quality(self) -> float | None:
        """The newest evaluation's quality; where events are gone, that of the completion record."""
        if not self.is_whole:
            return self.final_quality
        event = self.one(Evaluation)
        return None if event is None else event.quality


@dataclass(frozen=True)
class Measured:
    """Everything a metric may look at."""

    config: RunConfig
    plan: Plan
    quality: Any
    members: tuple[Member, ...]

    @cached_property
    def finished(self) -> tuple[Member, ...]:
        """The members that were trained to the end; metrics are made of these."""
        return tuple(member for member in self.members if member.state == "finished")

    @cached_property
    def concurrency(self) -> float:
        """How many members were in training at the same time, on average: a queue is not a larger machine."""
        spans = [member.span for member in self.finished]
        return sum(stop - start for start, stop in spans) / union_length(spans)

    @cached_property
    def training_s(self) -> float:
        """E × T_epoch of Eq. 6: the epochs' time, members side by side counted once, evaluations not at all."""
        return sum(epoch.epoch_s for member in self.finished for epoch in member.epochs) / self.concurrency

    @cached_property
    def ensemble(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ensemble's predictions of the held-out samples, and their true labels."""
        combined = self.quality.combine([member.load_predictions()["eval_predictions"] for member in self.finished])
        return combined, self.finished[0].load_predictions()["eval_labels"]

    @property
    def is_synthetic(self) -> bool:
        """Whether the data were made up, so that there is no quality to speak of."""
        ready = [event for member in self.members if (event := member.one(DataReady))]
        if not ready:  # no member has said so yet, or their events are gone
            return bool(getattr(DATASETS.load(self.config.dataset), "is_synthetic", False))
        return any(event.synthetic for event in ready)

    @property
    def is_over(self) -> bool:
        """Whether no member is running, waiting or stopped, so that nothing more is to come."""
        return all(member.state in FINAL_STATES for member in self.members)
