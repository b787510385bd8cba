"""Members as child processes: one per lane, the rest in a queue; each batch starts together."""

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from trainmark.launch.launcher import record_end
from trainmark.launch.start_barrier import is_ready, release_ranks
from trainmark.spec.config import RunConfig
from trainmark.spec.failures import DISK_FULL
from trainmark.spec.job_record import JobRecord
from trainmark.spec.member_state import End
from trainmark.spec.plan import Plan
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import QueueState


class ProcessCommand(NamedTuple):
    """A child process: its name in exit.json, command line, environment variables and log."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    holds_input: bool = False  # whether its standard input stays open while this process lives


class Starter(Protocol):
    """Provides a member's commands, and explains failures."""

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if the plan cannot be started here."""
        ...

    def script(self, record: JobRecord) -> str:
        """The job as a script that a person can read and run; pure."""
        ...

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """Returns the commands of an attempt."""
        ...

    def start_delay_s(self, record: JobRecord) -> float:
        """Seconds between start signal and start, so that all ranks have seen the signal."""
        ...

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """Whether a rank has failed while its processes keep running."""
        ...

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """Returns one line: why the attempt failed; a None exit code is a process still running at that time."""
        ...


GRACE_S = 3.0  # between SIGTERM and SIGKILL, and for processes to exit by themselves after a rank has failed


@dataclass(eq=False)
class _Running:
    """A member's processes."""

    record: JobRecord
    attempt: AttemptFolder
    batch: int  # members that were submitted together start together
    commands: list[ProcessCommand]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: bool = False
    failed_since: float | None = None
    ending: End | None = None
    codes_at_failure: list[int | None] = field(default_factory=list)

    def exit_codes(self) -> list[int | None]:
        return [process.poll() for process in self.processes]


class ProcessLauncher:
    """A launcher whose jobs are child processes that end with this one; `starter` provides the commands."""

    poll_s = 0.05
    outlives_us = False
    one_run_at_a_time = True  # another run on the same cores, caches or memory would disturb the measurement

    def __init__(self, starter: Starter) -> None:
        self.broken: dict[RunFolder, str] = {}
        self._starter = starter
        self._running: list[_Running] = []
        self._batch = 0
        self._may_have_room = True

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if the plan cannot be started here."""
        self._starter.check(config, plan, site)

    def reach(self) -> None:
        """No-op: this machine is always reachable."""

    def script(self, record: JobRecord) -> str:
        """A script that trains the member by hand, as attempt 1, without waiting for other members."""
        return self._starter.script(record)

    def batch_scripts(self, records: list[JobRecord]) -> dict[str, str]:
        """None: members are started one by one."""
        return {}

    def adopt(self, records: list[JobRecord]) -> list[JobRecord]:
        """None: a member's processes end together with the process that started them."""
        return []

    def submit(self, waiting: list[JobRecord]) -> list[JobRecord]:
        """Starts members whose lane is free; skipped while no member has ended, since no lane can have become free."""
        if not self._may_have_room:
            return []
        self._may_have_room = False
        busy = {_lane(running.record) for running in self._running}
        return [record for record in waiting if self._start(record, busy)]

    def _start(self, record: JobRecord, busy: set[tuple[RunFolder, int]]) -> bool:
        if _lane(record) in busy:
            return False
        busy.add(_lane(record))
        number, attempt = record.new_attempt()
        running = _Running(record, attempt, self._batch, self._starter.commands(record, number, attempt))
        self._running.append(running)
        for command in running.commands:
            running.processes.append(_open(command))
        return True

    def poll(self) -> None:
        """Closes the batch: members submitted from now on form a new one."""
        self._batch += 1

    def take_ended(self, folder: RunFolder) -> list[JobRecord]:
        """Returns the members that ended or have a failed rank, and starts each batch that is ready."""
        ended = []
        for running in self._of(folder):
            codes = running.exit_codes()
            has_failed = any(code not in (None, 0) for code in codes) or self._hangs_after_failure(running)
            if has_failed or None not in codes:
                self._end(running, "failed" if has_failed else "finished")
                ended.append(running.record)
        self._start_together(folder)
        return ended

    def _of(self, folder: RunFolder) -> list[_Running]:
        return [running for running in self._running if running.record.folder == folder]

    def _hangs_after_failure(self, running: _Running) -> bool:
        """Whether processes are still running some time after a rank failed."""
        if running.failed_since is None and self._starter.has_failed(running.attempt):
            running.failed_since = time.monotonic()
        return running.failed_since is not None and time.monotonic() - running.failed_since > GRACE_S

    def _start_together(self, folder: RunFolder) -> None:
        """Releases every batch whose ranks are all ready."""
        waiting = [running for running in self._of(folder) if not running.started]
        for batch in {running.batch for running in waiting}:
            together = [running for running in waiting if running.batch == batch]
            if all(is_ready(running.attempt, len(running.record.job.ranks)) for running in together):
                delay_s = self._starter.start_delay_s(together[0].record)
                release_ranks([running.attempt for running in together], delay_s)
                for running in together:
                    running.started = True

    def last_states(self, folder: RunFolder) -> dict[int, QueueState]:
        """Empty: there is no scheduler."""
        return {}

    def num_running(self, folder: RunFolder) -> int:
        """Returns the number of members with running processes."""
        return len(self._of(folder))

    def cancel(self, folder: RunFolder) -> None:
        """Stops the run's processes, by SIGTERM, then SIGKILL, and records each member's end."""
        stopped = self._of(folder)
        for running in stopped:
            running.ending = running.ending or "stopped"
        _stop_all([process for running in stopped for process in running.processes])
        failure: OSError | None = None
        for running in stopped:
            try:
                self._record_end(running)
            except OSError as error:  # still write the other members' records
                failure = error
        self._running = [running for running in self._running if running not in stopped]
        self._may_have_room = True
        if failure is not None:
            raise failure

    def queue(self, folder: RunFolder) -> dict[int, QueueState]:
        """Empty: there is no scheduler."""
        return {}

    def _end(self, running: _Running, state: End) -> None:
        running.ending, running.codes_at_failure = state, running.exit_codes()
        _stop_all(running.processes)
        self._record_end(running)

    def _record_end(self, running: _Running) -> None:
        """Writes exit.json, and only then forgets the member."""
        reason = None
        if running.ending == "failed":
            reason = self._starter.explain(running.record, running.attempt, running.codes_at_failure)
        elif running.ending == "stopped":
            reason = "stopped with the run"
        codes = running.exit_codes()
        if DISK_FULL in codes:
            self.broken[running.record.folder] = "the disk is full"
        assert running.ending is not None
        named = {command.name: code for command, code in zip(running.commands, codes, strict=False)}
        record_end(running.record, running.attempt, running.ending, reason, exit_codes=named)
        self._running.remove(running)
        self._may_have_room = True


def _lane(record: JobRecord) -> tuple[RunFolder, int]:
    return record.folder, record.job.lane


def _open(command: ProcessCommand) -> subprocess.Popen[bytes]:
    """Starts the process, output to its log, in its own session so that Ctrl-C reaches only this one."""
    with command.log.open("wb") as log:
        return subprocess.Popen(
            command.argv,
            env={**os.environ, **command.environment},
            stdin=subprocess.PIPE if command.holds_input else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _stop_all(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + GRACE_S
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:  # ends a rank that outlived its container runtime
            process.stdin.close()
