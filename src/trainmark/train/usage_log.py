"""Utilisation of a node over time, sampled by a thread of the first rank there, one event per sample."""

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

MIN_SAMPLE_S = 0.02  # shorter samples would be noise: kernel clock ticks are 10 ms at most sites
JOIN_TIMEOUT_S = 2.0  # for the last sample: a hanging driver or disk must not hold up the rank


class UsageSampler:
    """Samples every `period_s` until stopped; errors never end the training."""

    def __init__(
        self, path: Path, find_watched: Callable[[], Watched], period_s: float, node: str, ranks: list[int]
    ) -> None:
        self._path = path
        self._find_watched = find_watched
        self._period_s = period_s
        self._node = node
        self._ranks = ranks
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def start(self) -> None:
        """Starts sampling; the first sample is due after one period."""
        try:
            self._thread.start()
        except RuntimeError as error:  # thread limit reached
            _warn(error)

    def stop(self) -> None:
        """Samples the rest of the last period and stops."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._sample(EventLog(self._path))
        except Exception as error:  # noqa: BLE001  see the class
            _warn(error)

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
            due_s = max(due_s + self._period_s, now_s)  # after SIGSTOP, missed samples are skipped
            is_last = self._stopped.wait(due_s - now_s)
            now_s = time.monotonic()
            if not is_last or now_s - last_s >= MIN_SAMPLE_S:
                log.write(meter.read())
                last_s = now_s
            if is_last:
                return


def _warn(error: Exception) -> None:
    sys.stderr.write(f"trainmark: utilisation recording stopped: {type(error).__name__}: {error}\n")


def sample_usage(record: JobRecord, rank: Rank, attempt: AttemptFolder) -> Callable[[], None]:
    """Starts sampling the node if this is the member's first rank there; returns the function that stops it."""
    period_s = record.config.measure.usage_seconds
    if period_s == 0 or rank.rank_of_node != 0:
        return lambda: None
    node = record.job.nodes.index(rank.node)
    ranks = [each for each in record.job.ranks if each.node == rank.node]
    numbers = [each.rank for each in ranks]
    sampler = UsageSampler(attempt.usage(node), lambda: watched_of(ranks, attempt), period_s, rank.node, numbers)
    sampler.start()
    return sampler.stop


def watched_of(ranks: list[Rank], attempt: AttemptFolder) -> Watched:
    """Cores, processes and accelerators of a node's ranks, as logged: a scheduler may override the plan."""
    cores: set[int] = set()
    pids, accelerators = [], []
    for rank in ranks:
        started = first_of(RankStarted, read_events(attempt.rank_events(rank.rank))[0])
        if started is None:
            cores |= set(rank.cores)
            continue
        cores |= set(parse_cores(started.affinity.cores_allowed))
        if started.pid is not None:
            pids.append(started.pid)
        if started.device_uuid is not None:
            accelerators.append(started.device_uuid)
    return Watched(tuple(sorted(cores)), tuple(pids), tuple(accelerators))
