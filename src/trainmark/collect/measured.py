"""Measured: a run's events by member, and each member's predictions."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from trainmark.collect.statistics import Samples, SteadyState, find_steady_state, union_length
from trainmark.collect.work import Epoch, epoch_of, recorded, recorded_flop, weights
from trainmark.spec.config import RunConfig
from trainmark.spec.event_files import E
from trainmark.spec.events import (
    DataReady,
    EpochStart,
    EpochStop,
    Evaluation,
    Event,
    Resumed,
    Steps,
)
from trainmark.spec.files import one_line
from trainmark.spec.layout import global_batch
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.member_state import FINAL_STATES
from trainmark.spec.model_events import ModelReady, SampleFlops
from trainmark.spec.plan import Job, Plan
from trainmark.spec.registries import DATASETS
from trainmark.spec.status import MemberState

Predictions = Mapping[str, NDArray[Any]]
Problem = str | None

OF_EVERY_MEMBER = ("eval_predictions", "eval_labels")


def load_predictions(path: Path) -> Predictions:
    """Loads all arrays of predictions.npz."""
    with path.open("rb") as file:
        if not is_zipfile(file):  # numpy would try other formats
            raise BadZipFile("truncated, or not an archive of arrays")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def problem_with(load: Callable[[], Predictions], file: str) -> Problem:
    """Returns why predictions are unusable; None if they are usable."""
    try:
        missing = [name for name in OF_EVERY_MEMBER if name not in load()]
    except FileNotFoundError:
        return f"{file} is missing"
    except (OSError, ValueError, LookupError, EOFError, BadZipFile, zlib.error) as error:
        return f"{file} is unreadable: {one_line(error)}"
    return f"{file} lacks {', '.join(missing)}" if missing else None


NO_MEMBER = "no member finished"
NOT_OVER = "the run is not over"


class NodeUsage(NamedTuple):
    """Usage over time of one of a member's nodes; `rank` sampled it, `file` is its name in the run folder."""

    node: str
    rank: int
    file: str
    start: UsageStart
    samples: tuple[Usage, ...]
    problem: Problem = None


@dataclass(frozen=True)
class Member:
    """Measurements of a member's newest attempt, the one that counts."""

    job: Job
    attempts: int
    state: MemberState
    reason: str | None
    exit: dict[str, Any] | None
    events: tuple[tuple[Event, ...], ...]
    load_predictions: Callable[[], Predictions]
    load_usage: Callable[[], tuple[NodeUsage, ...]] = tuple
    problems: tuple[str, ...] = ()  # with its files
    is_whole: bool = True  # False: finished, but some of its events are missing
    final_quality: float | None = None  # from its completion record
    final_epochs: float | None = None  # from its completion record
    predictions_file: str = "predictions.npz"

    def all_of(self, kind: type[E], rank: int = 0) -> list[E]:
        """A rank's events of one kind."""
        return [event for event in self.events[rank] if isinstance(event, kind)] if self.events else []

    def one(self, kind: type[E], rank: int = 0) -> E | None:
        """A rank's newest event of one kind."""
        return next(reversed(self.all_of(kind, rank)), None)

    def of_all_ranks(self, kind: type[E]) -> list[E]:
        """All ranks' events of one kind, in rank order."""
        return [event for rank in self.job.ranks for event in self.all_of(kind, rank.rank)]

    @property
    def last_event_s(self) -> float | None:
        """Time of the member's last event; None if there is none."""
        return max((event.wall_s for of_rank in self.events for event in of_rank), default=None)

    @cached_property
    def was_restarted(self) -> bool:
        """Whether the newest attempt resumed from a checkpoint."""
        return bool(self.all_of(Resumed))

    @cached_property
    def epochs(self) -> list[Epoch]:
        """Epochs that the newest attempt ended, whole or in part."""
        starts = {event.epoch: event for event in self.all_of(EpochStart)}
        stops = [stop for stop in self.all_of(EpochStop) if stop.epoch in starts]
        return [epoch_of(starts[stop.epoch], stop, self.all_of(Steps)) for stop in stops]

    def training_spans(self, rank: int) -> list[tuple[float, float]]:
        """Returns the times a rank spent in epochs, by its wall clock."""
        starts = {event.epoch: event.wall_s for event in self.all_of(EpochStart, rank)}
        stops = self.all_of(EpochStop, rank)
        ended = [(starts[stop.epoch], stop.epoch_s) for stop in stops if stop.epoch in starts]
        spans = [(start_s, start_s + epoch_s) for start_s, epoch_s in ended]
        return [*spans, *self._open_span(rank)]

    def _open_span(self, rank: int) -> list[tuple[float, float]]:
        """Returns the span of an unfinished epoch up to its newest steps; empty if there is none."""
        begun, blocks = self.one(EpochStart, rank), self.one(Steps, rank)
        ended = {stop.epoch for stop in self.all_of(EpochStop, rank)}
        if begun is None or blocks is None or begun.epoch in ended or blocks.wall_s < begun.wall_s:
            return []
        return [(begun.wall_s, blocks.wall_s)]

    @cached_property
    def warmup_s(self) -> float:
        """Duration of the warm-up steps, including waits and compilation."""
        return float(self.step_s[: self.steady.warmup_steps].sum())

    @cached_property
    def usage(self) -> tuple[NodeUsage, ...]:
        """Usage of its nodes over time."""
        return self.load_usage()

    @property
    def span(self) -> tuple[float, float]:
        """From the start of the first epoch to the end of the last, or to the newest steps."""
        spans = self.training_spans(0)
        return spans[0][0], spans[-1][1]

    @cached_property
    def predictions_problem(self) -> Problem:
        """Why its predictions are unusable; None if they are usable."""
        return problem_with(self.load_predictions, self.predictions_file)

    @cached_property
    def step_s(self) -> Samples:
        """Step durations of rank 0."""
        return np.array([value for block in self.all_of(Steps) for value in block.step_s], dtype=np.float64)

    @cached_property
    def wait_s(self) -> Samples:
        """Time that each step of rank 0 waited for its batch."""
        return np.array([value for block in self.all_of(Steps) for value in block.wait_s], dtype=np.float64)

    @cached_property
    def total_px(self) -> Samples | None:
        """Pixels of each step, padding included; None if its data are not of variable shape."""
        return recorded(blocks := self.all_of(Steps), [block.total_px for block in blocks])

    @cached_property
    def informative_px(self) -> Samples | None:
        """Pixels of each step that are not padding; None if its data are not of variable shape."""
        return recorded(blocks := self.all_of(Steps), [block.informative_px for block in blocks])

    @cached_property
    def step_weights(self) -> Samples:
        """Size of each step relative to their mean."""
        return weights(self.total_px, len(self.step_s))

    @cached_property
    def steady(self) -> SteadyState:
        """The member's warm-up and steady state, judged by the time of a step for its size."""
        return find_steady_state(self.step_s / self.step_weights)

    def in_steady_state(self, of_steps: Samples) -> Samples:
        """Returns the values of the steps after warm-up."""
        return of_steps[self.steady.warmup_steps :]

    def flop_counts(self) -> dict[str, SampleFlops]:
        """The FLOP counts of the member's model, by convention."""
        event = self.one(ModelReady)
        if event is None:
            raise LookupError(f"member {self.job.member} recorded no model")
        return event.conventions

    @cached_property
    def proposals_per_image(self) -> float:
        """Mean number of a detector's proposals per training image; 0 for other models."""
        epochs = [stop for stop in self.of_all_ranks(EpochStop) if stop.images_seen]
        images = sum(stop.images_seen or 0 for stop in epochs)
        return sum(stop.proposals_seen or 0 for stop in epochs) / images if images else 0.0

    def training_flop_per_sample(self) -> dict[str, float]:
        """Returns FLOP by convention; a detector's proposals by their mean number."""
        return {name: count.training_with(self.proposals_per_image) for name, count in self.flop_counts().items()}

    def quality(self) -> float | None:
        """Returns the quality of the newest evaluation, or from the completion record if events are missing."""
        if not self.is_whole:
            return self.final_quality
        event = self.one(Evaluation)
        return None if event is None else event.quality


@dataclass(frozen=True)
class Measured:
    """All inputs of the metrics."""

    config: RunConfig
    plan: Plan
    quality: Any
    members: tuple[Member, ...]

    @cached_property
    def finished(self) -> tuple[Member, ...]:
        """Members that finished, from which metrics are computed."""
        return tuple(member for member in self.members if member.state == "finished")

    def samples_of(self, member: Member) -> Samples:
        """Returns the samples of each step of a member: as recorded, else a global batch."""
        found = recorded(blocks := member.all_of(Steps), [block.samples for block in blocks])
        if found is not None:
            return found
        return np.full(len(member.step_s), float(global_batch(self.config.train, self.plan.workers_per_member)))

    def flop_of(self, member: Member) -> dict[str, Samples]:
        """Returns the training FLOPs of each step of a member, by convention: as recorded, else of equal samples."""
        found = recorded_flop(member.all_of(Steps))
        if found:
            return found
        samples = self.samples_of(member)
        return {name: samples * of_sample for name, of_sample in member.training_flop_per_sample().items()}

    @cached_property
    def concurrency(self) -> float:
        """Mean number of members that trained concurrently."""
        spans = [member.span for member in self.finished]
        return sum(stop - start for start, stop in spans) / union_length(spans)

    @cached_property
    def training_s(self) -> float:
        """E × T_epoch of Eq. 6: time in epochs, concurrent members counted once, without evaluations."""
        return sum(epoch.epoch_s for member in self.finished for epoch in member.epochs) / self.concurrency

    @cached_property
    def ensemble(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ensemble's predictions on held-out samples, and the labels."""
        combined = self.quality.combine([member.load_predictions()["eval_predictions"] for member in self.finished])
        return combined, self.finished[0].load_predictions()["eval_labels"]

    @property
    def is_synthetic(self) -> bool:
        """Whether the data are synthetic, so that quality is meaningless."""
        ready = [event for member in self.members if (event := member.one(DataReady))]
        if not ready:  # not recorded yet, or the events are missing
            return bool(getattr(DATASETS.load(self.config.dataset), "is_synthetic", False))
        return any(event.synthetic for event in ready)

    @property
    def why_no_quality(self) -> str | None:
        """Why nothing was evaluated; None if it was."""
        if self.is_synthetic:
            return "not applicable: synthetic data"
        return "not measured: evaluate.samples is 0" if self.config.evaluate.samples == 0 else None

    @property
    def is_over(self) -> bool:
        """Whether all members have finished or failed."""
        return all(member.state in FINAL_STATES for member in self.members)
