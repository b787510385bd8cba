"""The utilisation of a node over time: the first rank there samples it in a thread of its own, one line per sample."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from trainmark.machine.usage import UsageMeter, Watched
from trainmark.spec.event_files import first_of, read_events
from trainmark.spec.events import RankStarted
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import UsageStart
from trainmark.spec.plan import Rank
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.units import parse_cores, show_cores
from trainmark.train.event_log import EventLog

LEAST_S = 0.02  # of the last sample: shorter ones would be noise of the kernel's clock ticks, 10 ms at most sites
PATIENCE_S = 2.0  # for the last sample; a driver or a disk that hangs must not keep the rank


class UsageSampler:
    """Samples every `period_s` until it is stopped. What goes wrong stays here: it is no reason to end a training."""

    def __init__(
        self, path: Path, find_watched: Callable[[], Watched], period_s: float, node: str, ranks: list[int]
    ) -> None:
        self._path = path
        self._find_watched = find_watched
        self._period_s = period_s
        self._node = node
        self._ranks = ranks
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def start(self) -> None:
        """The first sample is due one period from now."""
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads are allowed
            _complain(error)

    def stop(self) -> None:
        """What is left of the last period is sampled."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        try:
            self._sample(EventLog(self._path))
        except Exception as error:  # noqa: BLE001  see the class
            _complain(error)

    def _sample(self, log: EventLog) -> None:
        watched = self._find_watched()
        meter = UsageMeter(watched)
        log.write(
            UsageStart(
                node=self._node,
                ranks=self._ranks,
                period_s=self._period_s,
                cores=show_cores(watched.cores),
                pids=list(watched.pids),
                interfaces=list(meter.interfaces.names),
                accelerators=list(watched.accelerators),
                unavailable=meter.unavailable,
            )
        )
        due_s = last_s = time.monotonic()
        while True:
            now_s = time.monotonic()
            due_s = max(due_s + self._period_s, now_s)  # a stopped process does not catch up
            is_last = self._is_over.wait(due_s - now_s)
            now_s = time.monotonic()
            if not is_last or now_s - last_s >= LEAST_S:
                log.write(meter.read())
                last_s = now_s
            if is_last:
                return


def _complain(error: Exception) -> None:
    sys.stderr.write(f"trainmark: utilisation is no longer recorded: {type(error).__name__}: {error}\n")


def sample_usage(record: JobRecord, rank: Rank, attempt: AttemptFolder) -> Callable[[], None]:
    """The node is sampled from now on, if this is the member's first rank there; what ends it comes back."""
    period_s = record.config.measure.usage_seconds
    if period_s == 0 or rank.rank_of_node != 0:
        return lambda: None
    node = record.job.nodes.index(rank.node)
    peers = [peer for peer in record.job.ranks if peer.node == rank.node]
    ranks = [peer.rank for peer in peers]
    sampler = UsageSampler(attempt.usage(node), lambda: watched_of(peers, attempt), period_s, rank.node, ranks)
    sampler.start()
    return sampler.stop


def watched_of(peers: list[Rank], attempt: AttemptFolder) -> Watched:
    """Cores, processes and accelerators of a node's ranks: as reported, since a scheduler may have chosen others."""
    cores: set[int] = set()
    pids, accelerators = [], []
    for peer in peers:
        started = first_of(RankStarted, read_events(attempt.rank_events(peer.rank))[0])
        if started is None:
            cores |= set(peer.cores)
            continue
        cores |= set(parse_cores(started.affinity.cores_allowed))
        if started.pid is not None:
            pids.append(started.pid)
        if started.device_uuid is not None:
            accelerators.append(started.device_uuid)
    return Watched(tuple(sorted(cores)), tuple(pids), tuple(accelerators))
