"""Engine: what a framework does for one rank, in numpy and plain values; all else of training is the same for each."""

import importlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.data.bootstrap import Counts
from trainmark.data.epochs import Order, Views
from trainmark.data.source import Known, Source
from trainmark.spec.config import RunConfig
from trainmark.spec.events import EngineReady, EpochFacts
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.registries import ENGINES
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.agreement import Store
from trainmark.train.event_log import EventLog

Batch = Any  # what `feed` gives and `step` takes
Loss = Any  # of a batch; may still be on its way on the device
Stamp = Any  # a moment of the device's work


class UnreadableStateError(Exception):
    """A file that holds no state of this engine."""


class UnfitStateError(Exception):
    """A state that does not fit this model and optimizer."""


@dataclass(frozen=True)
class RankContext:
    """Which rank of which member this process is, and where it leaves what it measures."""

    record: JobRecord
    rank: Rank
    attempt: AttemptFolder
    log: EventLog

    @property
    def config(self) -> RunConfig:
        """The run's configuration."""
        return self.record.config

    @property
    def member(self) -> int:
        """The member that this rank trains."""
        return self.record.job.member

    @property
    def workers(self) -> int:
        """How many ranks train the member together."""
        return len(self.record.job.ranks)

    @property
    def threads(self) -> int:
        """How many threads this rank computes with."""
        return self.config.launch.threads or len(self.rank.cores)


class Data(NamedTuple):
    """What the batches of a rank are made from."""

    counts: Counts  # how often the member has each training sample
    sample_shape: tuple[int, ...]
    train: Source
    evaluation: Known | None  # None where data are synthetic: there is nothing to evaluate


class DeviceFacts(NamedTuple):
    """What a rank computes on, and with."""

    name: str
    uuid: str | None  # of an accelerator
    threads: int
    software: dict[str, str]  # versions of the framework, and what it chose on this device


class Clock(Protocol):
    """Stamps on the device's own time line, and how to read losses and times without stalling it."""

    def stamp(self) -> Stamp:
        """This moment of the work; on an accelerator it may still be ahead."""
        ...

    def num_over(self, stamps: list[Stamp]) -> int:
        """How many of these stamps, oldest first, the device has passed."""
        ...

    def seconds_between(self, start: Stamp, end: Stamp) -> float:
        """The time between two stamps that are over."""
        ...

    def read(self, losses: list[Loss]) -> list[float]:
        """The losses of steps that are over."""
        ...

    def wait(self) -> None:
        """Returns when the device has done all that it was given."""
        ...


class HostClock:
    """The clock of engines that compute where they are called: a step is over when it returns."""

    def stamp(self) -> int:
        """Nanoseconds of the host."""
        return time.perf_counter_ns()

    def num_over(self, stamps: list[int]) -> int:
        """All of them."""
        return len(stamps)

    def seconds_between(self, start: int, end: int) -> float:
        """The host's time."""
        return (end - start) / 1e9

    def read(self, losses: list[Loss]) -> list[float]:
        """The losses as plain numbers."""
        return [float(loss) for loss in losses]

    def wait(self) -> None:
        """Returns at once."""


class Engine(Protocol):
    """One rank's model and all that trains it. Called in the order of these methods, by all ranks of a member alike."""

    clock: Clock

    def __init__(self, context: RankContext) -> None: ...

    def set_up(self) -> DeviceFacts:
        """Threads, seed and device are set."""
        ...

    def join(self) -> Store | None:
        """The ranks of the member form the framework's process group; the store that they share, None for one rank."""
        ...

    def build(self, data: Data) -> EngineReady:
        """Model and optimizer are ready to train on the data; says what was chosen, for the Result."""
        ...

    def read(self, path: Path) -> Any:
        """The state that `save` wrote. Raises UnreadableStateError."""
        ...

    def load(self, state: Any) -> None:
        """Training goes on from a state that `read` gave. Raises UnfitStateError."""
        ...

    def measure_ceiling(self) -> dict[str, Any]:
        """What this rank's device can do at the run's precision (machine/ceilings.py)."""
        ...

    def feed(self, rows: Order, views: Views | None) -> Iterator[Batch]:
        """The training batch of each row of sample numbers, ahead of use, each sample seen as `views` says."""
        ...

    def step(self, batch: Batch, rate: float, decay_factor: float) -> Loss:
        """One update of the weights; `decay_factor` multiplies the recipe's weight decay."""
        ...

    def settle(self) -> None:
        """All ranks hold the same weights."""
        ...

    def epoch_facts(self) -> EpochFacts:
        """What was measured since the last call: waiting for other ranks, and what the parallel mode counts."""
        ...

    def why_bytes_unseen(self) -> str | None:
        """Why no TCP socket of this process carries what it sends to other ranks; None where one does."""
        ...

    def predict(self, source: Known, indices: Order) -> NDArray[np.float32]:
        """A row for each of `indices`, the same on every rank; ranks share the work."""
        ...

    def save(self, file: IO[bytes]) -> None:
        """Writes all that this rank needs to go on."""
        ...

    def weights(self) -> dict[str, NDArray[Any]]:
        """The model's parameters and buffers by the names that they have in every engine (torch's)."""
        ...

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """The model has these weights."""
        ...

    def peak_device_bytes(self) -> int | None:
        """The peak of the accelerator's memory; None on a CPU."""
        ...

    def barrier(self) -> None:
        """Returns when every rank of the member has called it."""
        ...

    def leave(self) -> None:
        """The process group is no more."""
        ...


def load_engine(context: RankContext) -> Engine:
    """The engine that the configuration names."""
    module, _, name = ENGINES.load(context.config.train.engine).implementation.partition(":")
    engine: Engine = getattr(importlib.import_module(module), name)(context)
    return engine
