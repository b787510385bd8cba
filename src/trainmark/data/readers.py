"""Reader processes that read and decode samples ahead of training; batches are passed in shared memory."""

import mmap
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.split import StoredSplit
from trainmark.machine.processes import exit_with_parent
from trainmark.spec.errors import DataError, TrainmarkError
from trainmark.spec.failures import explain_exit

AHEAD = 2  # batches in flight per process


class ReaderDiedError(TrainmarkError):
    """A reader process died."""


class Wanted(NamedTuple):
    """A batch: which samples of which split, and the seed of each sample's augmentation."""

    split: int
    indices: NDArray[np.int64]
    seeds: NDArray[np.int64]


class Readers:
    """`count` processes that read samples of all `splits`; 0: this process reads them itself.

    They are forked here, once, and end with this process. Create them before other threads run: a lock that a thread
    holds during a fork is never released in the child.
    """

    def __init__(self, splits: Sequence[StoredSplit], augmentation: str, count: int) -> None:
        self._splits = splits
        self._augmentation = augmentation
        self._readers = [_Reader.fork(splits, augmentation) for _ in range(count)]

    def number_of(self, split: StoredSplit) -> int:
        """The number of a split."""
        return next(number for number, each in enumerate(self._splits) if each is split)

    def read(self, batches: Sequence[Wanted]) -> Iterator[NDArray[Any]]:
        """Yields the samples of each batch, valid until the next one; cancels what is left of an earlier call."""
        if not self._readers:
            yield from (_stacked(self._splits, self._augmentation, wanted) for wanted in batches)
            return
        for reader in self._readers:
            reader.drain()
        readers, count = self._readers, len(self._readers)
        for number in range(min(len(batches), AHEAD * count)):
            readers[number % count].request(batches[number])
        for number in range(len(batches)):
            reader = readers[number % count]
            samples = reader.take()
            # The current batch keeps its buffer: a reader has one more buffer than batches in flight.
            if number + AHEAD * count < len(batches):
                reader.request(batches[number + AHEAD * count])
            yield samples


@dataclass
class _Buffer:
    """Memory shared by two processes, either of which may enlarge it."""

    descriptor: int = field(default_factory=lambda: os.memfd_create("trainmark-batch"))
    size: int = 0
    memory: mmap.mmap | None = None

    def of_size(self, size: int) -> mmap.mmap:
        """The memory, of at least `size` bytes."""
        if size > self.size or self.memory is None:
            if os.fstat(self.descriptor).st_size < size:
                os.ftruncate(self.descriptor, size)
            self.memory, self.size = mmap.mmap(self.descriptor, size), size
        return self.memory

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array in the memory."""
        count = int(np.prod(shape))
        return np.frombuffer(self.of_size(max(1, count * dtype.itemsize)), dtype, count).reshape(shape)


class _Reader:
    """The parent's side of one reader process; batches arrive in the order of the requests."""

    def __init__(self, process: Any, connection: Connection, buffers: list[_Buffer]) -> None:
        self._process, self._connection, self._buffers = process, connection, buffers
        self._requested = self._received = 0

    @classmethod
    def fork(cls, splits: Sequence[StoredSplit], augmentation: str) -> "_Reader":
        """Forks a reader process."""
        context = multiprocessing.get_context("fork")
        parent_end, child_end = context.Pipe()
        buffers = [_Buffer() for _ in range(AHEAD + 1)]
        process = context.Process(
            target=_serve, args=(os.getpid(), child_end, buffers, splits, augmentation), name="reader", daemon=True
        )
        process.start()
        child_end.close()  # so that the reader's death is noticed, and later readers do not inherit it
        return cls(process, parent_end, buffers)

    def request(self, wanted: Wanted) -> None:
        """Requests a batch."""
        try:
            self._connection.send(wanted)
        except OSError:
            raise self._death() from None
        self._requested += 1

    def take(self) -> NDArray[Any]:
        """Returns the samples of the oldest requested batch."""
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._death() from None
        buffer = self._buffers[self._received % len(self._buffers)]
        self._received += 1
        if isinstance(answer, BaseException):
            raise answer
        shape, dtype = answer
        return buffer.array(shape, np.dtype(dtype))

    def drain(self) -> None:
        """Discards all outstanding batches."""
        while self._received < self._requested:
            try:
                self.take()
            except DataError:
                continue

    def _death(self) -> ReaderDiedError:
        self._process.join(1)
        code = self._process.exitcode
        end = "it does not respond" if code is None else explain_exit(code)
        return ReaderDiedError(
            f"A reader process failed: {end}. Resume; if it fails again, start a new run with a lower --set "
            "launch.loader_workers or --set train.batch_size."
        )


def _serve(
    parent: int, connection: Connection, buffers: list[_Buffer], splits: Sequence[StoredSplit], augmentation: str
) -> None:
    """Reads requested batches until the parent is gone."""
    for number in (signal.SIGTERM, signal.SIGUSR2):  # sent to the rank, whose handlers were inherited
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    exit_with_parent(parent, signal.SIGKILL)
    served = 0
    while True:
        try:
            wanted = connection.recv()
        except (EOFError, OSError):
            return
        buffer = buffers[served % len(buffers)]
        served += 1
        try:
            samples = _stacked(splits, augmentation, wanted, buffer)
            connection.send((samples.shape, samples.dtype.str))
        except DataError as error:  # the parent raises it, without a traceback of this process
            connection.send(error)
        except Exception as error:  # noqa: BLE001  such as a bug in a decoder: named, not taken for a killed process
            connection.send(DataError(f"A sample could not be decoded: {type(error).__name__}: {error}"))


def _stacked(
    splits: Sequence[StoredSplit], augmentation: str, wanted: Wanted, buffer: _Buffer | None = None
) -> NDArray[Any]:
    """The samples of a batch in one array, in the buffer if one is given; smaller images are padded with zeros."""
    split = splits[wanted.split]
    numbers = zip(wanted.indices.tolist(), wanted.seeds.tolist(), strict=True)
    first = split.read(*_of_sample(next(numbers), augmentation))
    largest = first.shape[1:] if split.shapes is None else tuple(split.shapes[wanted.indices].max(axis=0).tolist())
    shape = (len(wanted.indices), first.shape[0], *largest)
    stacked = np.empty(shape, first.dtype) if buffer is None else buffer.array(shape, first.dtype)
    put = np.copyto if split.shapes is None else _place
    put(stacked[0], first)
    for place, sample in enumerate(numbers, 1):
        put(stacked[place], split.read(*_of_sample(sample, augmentation)))
    return stacked


def _place(padded: NDArray[Any], sample: NDArray[Any]) -> None:
    """Copies a sample into the top left corner, and zeros into the rest."""
    height, width = sample.shape[1:]
    padded[:, :height, :width] = sample
    padded[:, height:] = 0
    padded[:, :height, width:] = 0


def _of_sample(sample: tuple[int, int], augmentation: str) -> tuple[int, str, int]:
    index, seed = sample
    return index, augmentation, seed
