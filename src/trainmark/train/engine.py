"""Engine: what a framework does for one rank, in numpy and plain values; the rest of training is framework-neutral."""

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainmark.data.batching import Shapes
from trainmark.data.bootstrap import Counts
from trainmark.data.epochs import Indices, Passes, Rows, RowViews
from trainmark.data.source import DatasetSource, Source
from trainmark.spec.config import RunConfig
from trainmark.spec.events import EngineReady, EpochFacts
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.registries import ENGINES
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.event_log import EventLog
from trainmark.train.shared_store import Store

Batch = Any  # what `feed` yields and `step` takes
Loss = Any  # of a batch; may still be pending on the device
ForwardPass = Callable[[Batch], Any]  # from a batch to predictions, which may still be pending on the device
Stamp = Any  # a point in time on the device


class UnreadableStateError(Exception):
    """The file does not hold a state of this engine."""


class IncompatibleStateError(Exception):
    """The state does not fit this model and optimizer."""


@dataclass(frozen=True)
class RankContext:
    """The rank and member of this process, and where its measurements go."""

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
        """The number of ranks that train the member."""
        return len(self.record.job.ranks)

    @property
    def threads(self) -> int:
        """The number of compute threads of this rank."""
        return self.config.launch.threads or len(self.rank.cores)


class Data(NamedTuple):
    """What the batches of a rank are made from."""

    counts: Counts  # how often each training sample occurs in the bootstrap
    sample_shape: tuple[int, ...]
    train: Source
    evaluation: DatasetSource | None  # None: nothing is evaluated
    shapes: Shapes | None = None  # of all training samples, if they differ
    largest_pass_px: int | None = None  # of training, padding included, if samples differ in shape


class DeviceFacts(NamedTuple):
    """The device of a rank, and the software on it."""

    name: str
    uuid: str | None  # of an accelerator
    threads: int
    software: dict[str, str]  # framework versions, and the instruction set it chose
    interop_threads: int | None = None  # None: the framework has none


class Clock(Protocol):
    """Time stamps on the device, and reading losses and times without stalling it."""

    def stamp(self) -> Stamp:
        """Records a time stamp after the work submitted so far; on an accelerator it may still be pending."""
        ...

    def num_finished(self, stamps: list[Stamp]) -> int:
        """How many of these stamps, oldest first, the device has reached."""
        ...

    def seconds_between(self, start: Stamp, end: Stamp) -> float:
        """The time between two stamps that the device has reached."""
        ...

    def read(self, losses: list[Loss]) -> list[float]:
        """The losses of finished steps."""
        ...

    def wait(self) -> None:
        """Returns when the device has finished all submitted work."""
        ...


class HostClock:
    """The clock of synchronous engines: a step is finished when it returns."""

    def stamp(self) -> int:
        """Nanoseconds of the host."""
        return time.perf_counter_ns()

    def num_finished(self, stamps: list[int]) -> int:
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
    """One rank's model and training state. Methods are called in this order, by all ranks of a member."""

    clock: Clock

    def __init__(self, context: RankContext) -> None: ...

    def set_up(self) -> DeviceFacts:
        """Sets threads, seed and device."""
        ...

    def join(self) -> Store | None:
        """Joins the framework's process group; returns the ranks' shared store, None for one rank."""
        ...

    def build(self, data: Data) -> EngineReady:
        """Builds model and optimizer for the data; returns the options in use, for the Result."""
        ...

    def read(self, path: Path) -> Any:
        """Reads a state written by `save`; raises UnreadableStateError."""
        ...

    def load(self, state: Any) -> None:
        """Restores a state returned by `read`; raises IncompatibleStateError."""
        ...

    def measure_ceiling(self) -> dict[str, Any]:
        """What this rank's device can do at the run's precision (machine/ceilings.py)."""
        ...

    def feed(self, rows: Rows, views: RowViews | None, passes: Sequence[Passes] | None = None) -> Iterator[Batch]:
        """Yields the training batch of each row of sample indices, prefetched and augmented as `views` says.

        Images of unlike shape come with `passes`: each is padded to its own largest image. An engine whose offer does
        not name them never gets any.
        """
        ...

    def step(self, batch: Batch, rate: float, decay_factor: float) -> Loss:
        """One update of the weights; `decay_factor` multiplies the recipe's weight decay."""
        ...

    def sync_weights(self) -> None:
        """Makes the weights the same on all ranks."""
        ...

    def epoch_facts(self) -> EpochFacts:
        """Measurements since the last call: time waited for other ranks, and the parallel mode's own."""
        ...

    def why_bytes_uncounted(self) -> str | None:
        """Why TCP sockets do not show the bytes sent to other ranks; None if they do."""
        ...

    def predict(self, source: DatasetSource, indices: Indices) -> NDArray[np.float32]:
        """Predictions, one row per index, on every rank; the work is split over the ranks."""
        ...

    def prepare_inference(self) -> ForwardPass | str:
        """The forward pass in inference mode, valid until the next step, or why this rank cannot make one alone."""
        ...

    def save(self, file: IO[bytes]) -> None:
        """Writes the state that this rank needs to resume."""
        ...

    def weights(self) -> dict[str, NDArray[Any]]:
        """The model's parameters and buffers, under the same names in every engine (torch's)."""
        ...

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Replaces the model's weights."""
        ...

    def peak_device_bytes(self) -> int | None:
        """Peak accelerator memory; None on a CPU."""
        ...

    def take_peak_device_bytes(self) -> int:
        """Peak accelerator memory since the last call, or of all; never waits for the device."""
        ...

    def barrier(self) -> None:
        """Returns when every rank of the member has called it."""
        ...

    def leave(self) -> None:
        """Destroys the process group."""
        ...


def load_engine(context: RankContext) -> Engine:
    """The engine that the configuration names."""
    module, _, name = ENGINES.load(context.config.train.engine).implementation.partition(":")
    engine: Engine = getattr(importlib.import_module(module), name)(context)
    return engine
