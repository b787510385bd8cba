"""Starts members as processes on this machine: members side by side on their own cores, the rest in a queue."""

import os
import subprocess
import time
from dataclasses import dataclass, field

from trainmark.launch.blame import explain_failure
from trainmark.launch.commands import as_comment, rank_command
from trainmark.launch.ends import End, record_end
from trainmark.launch.start_gun import is_ready, tell_start
from trainmark.machine.accelerators import find_accelerators
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.exit_codes import DISK_FULL
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.queue import QueueState
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.units import show_cores

# Workers of one machine talk over its loopback; looking for another interface by host name can take seconds.
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo"}
GRACE_S = 3.0  # between SIGTERM and SIGKILL
START_DELAY_S = 0.05  # between the start signal and the start, so that every rank has seen it


@dataclass
class _Running:
    """A member's processes."""

    record: JobRecord
    attempt: AttemptFolder
    batch: int  # members that were submitted together start together
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: bool = False
    ending: End | None = None
    codes_at_first: list[int | None] = field(default_factory=list)

    def exit_codes(self) -> list[int | None]:
        return [process.poll() for process in self.processes]


class LocalLauncher:
    """Starts members as processes on this machine: members side by side on their own cores, the rest in a queue."""

    poll_s = 0.05
    outlives_us = False

    def __init__(self) -> None:
        self.broken: str | None = None
        self._running: list[_Running] = []
        self._batch = 0

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """An error if the plan needs other machines, or cores that this process may not use."""
        nodes = {rank.node for job in plan.jobs for rank in job.ranks}
        if len(nodes) > 1:
            raise PlanError(
                f"The launcher 'local' starts jobs on this machine only, but the plan uses {len(nodes)} nodes. "
                "Describe one node with --site, or choose another --launcher."
            )
        planned = {core for job in plan.jobs for rank in job.ranks for core in rank.cores}
        missing = planned - os.sched_getaffinity(0)
        if missing:
            raise PlanError(
                f"The plan uses cores {show_cores(tuple(missing))}, but this process may use only "
                f"{show_cores(tuple(os.sched_getaffinity(0)))}. Correct the cores in the --site file."
            )

        devices = {rank.accelerator for job in plan.jobs for rank in job.ranks} - {None}
        absent = devices - {accelerator.index for accelerator in find_accelerators()}
        if absent:
            raise PlanError(
                f"The plan uses accelerator {', '.join(map(str, absent))}, but this machine has no such one. "
                "Correct the accelerators in the --site file."
            )

    def script(self, record: JobRecord) -> str:
        """A script that trains the member by hand, as attempt 1, without waiting for other members."""
        job = record.job
        lines = [
            "#!/bin/bash",
            as_comment(f"Run {record.folder.run_id}, member {job.member}: {len(job.ranks)} worker(s) on this machine."),
            "# trainmark runs the same commands with --supervised-by, so that members start together and end with it.",
            "pids=()",
        ]
        for rank in job.ranks:
            lines.append(f"# rank {rank.rank} on core(s) {show_cores(rank.cores)}")
            lines.append(f"{rank_command(record, rank, 1, ENVIRONMENT, supervised_by=None).as_shell()} &")
            lines.append("pids+=($!)")
        lines += ["status=0", 'for pid in "${pids[@]}"; do wait "$pid" || status=$?; done', 'exit "$status"']
        return "\n".join(lines) + "\n"

    def batch_scripts(self, records: list[JobRecord]) -> dict[str, str]:
        """None: members are started one by one."""
        return {}

    def adopt(self, records: list[JobRecord]) -> list[JobRecord]:
        """None: the kernel ends a member's processes together with the process that started them."""
        return []

    def submit(self, waiting: list[JobRecord]) -> list[JobRecord]:
        """The members whose lane was free."""
        return [record for record in waiting if self._start(record)]

    def _start(self, record: JobRecord) -> bool:
        """One process per rank, output to its log, in a session of its own so that Ctrl-C reaches only us."""
        if any(running.record.job.lane == record.job.lane for running in self._running):
            return False
        number, attempt = record.new_attempt()
        running = _Running(record, attempt, self._batch)
        self._running.append(running)
        for rank in record.job.ranks:
            command = rank_command(record, rank, number, ENVIRONMENT, supervised_by=os.getpid())
            with attempt.rank_log(rank.rank).open("wb") as log:
                running.processes.append(
                    subprocess.Popen(
                        command.argv,
                        env={**os.environ, **command.environment},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        return True

    def poll(self) -> list[JobRecord]:
        """The members that ended, those of which a rank failed among them; each batch that is ready is started."""
        self._batch += 1
        before = [running.record for running in self._running]
        for running in list(self._running):
            codes = running.exit_codes()
            if any(code not in (None, 0) for code in codes):
                self._end(running, "failed")
            elif None not in codes:
                self._end(running, "finished")
        self._start_together()
        still = [running.record for running in self._running]
        return [record for record in before if record not in still]

    def _start_together(self) -> None:
        """Every batch of members whose ranks are all ready has been told when to start."""
        waiting = [running for running in self._running if not running.started]
        for batch in {running.batch for running in waiting}:
            together = [running for running in waiting if running.batch == batch]
            if all(is_ready(running.attempt, len(running.record.job.ranks)) for running in together):
                tell_start([running.attempt for running in together], START_DELAY_S)
                for running in together:
                    running.started = True

    def num_running(self) -> int:
        """Members whose processes run."""
        return len(self._running)

    def cancel(self) -> None:
        """All processes have ended, SIGTERM first, SIGKILL after a grace; each member's end is recorded."""
        for running in self._running:
            running.ending = running.ending or "stopped"
        _stop_all([process for running in self._running for process in running.processes])
        failure: OSError | None = None
        for running in list(self._running):
            try:
                self._record_end(running)
            except OSError as error:  # one record that cannot be written must not cost the others theirs
                failure = error
        if failure is not None:
            raise failure

    def queue(self, folder: RunFolder) -> dict[int, QueueState]:
        """Nothing: there is no queue but our own."""
        return {}

    def _end(self, running: _Running, state: End) -> None:
        running.ending, running.codes_at_first = state, running.exit_codes()
        _stop_all(running.processes)
        self._record_end(running)

    def _record_end(self, running: _Running) -> None:
        """exit.json says how the member ended; only then is the member forgotten."""
        reason = None
        if running.ending == "failed":
            reason = explain_failure(running.attempt, running.codes_at_first)
        elif running.ending == "stopped":
            reason = "stopped with the run"
        codes = running.exit_codes()
        if DISK_FULL in codes:
            self.broken = "the disk is full"
        assert running.ending is not None
        record_end(running.record, running.attempt, running.ending, reason, exit_codes=dict(enumerate(codes)))
        self._running.remove(running)


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
