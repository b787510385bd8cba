"""Starts members as Slurm jobs, which outlive this process, and follows them by polling the queue."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from secrets import token_hex

from trainmark.launch.launcher import record_end
from trainmark.launch.slurm.queue import QueuedJob, find_job, reach_slurm, read_queue, submit
from trainmark.launch.slurm.request import by_shape, check_shapes, check_time_limit
from trainmark.launch.slurm.script import job_name, member_script, preview, submission_script
from trainmark.launch.slurm.submission import Submission, Task, read_submissions, write_submission
from trainmark.launch.slurm.underway import Underway, explain_end
from trainmark.machine.slurm.programs import (
    NoJobIdError,
    SlurmRefusedError,
    SlurmUnreachableError,
    call,
)
from trainmark.machine.stop import pause
from trainmark.spec.config import RunConfig
from trainmark.spec.files import write_text
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import QueueState

FIRST_POLL_S = 0.5
BACK_OFF = 1.5
CANCEL_TIMEOUT_S = 60.0


class SlurmLauncher:
    """Starts members as Slurm jobs, which outlive this process, and follows them by polling the queue."""

    outlives_us = True
    one_run_at_a_time = False  # Slurm keeps jobs apart

    def __init__(self) -> None:
        self.broken: dict[RunFolder, str] = {}
        self._underway: dict[RunFolder, list[Underway]] = {}
        self._unsent: dict[RunFolder, tuple[Submission, list[JobRecord]]] = {}
        self._wait_s = FIRST_POLL_S
        self._longest_wait_s = 15.0
        self._queue: dict[str, QueuedJob] | None = None  # at the last poll; None if Slurm was unreachable
        self._previous_states: dict[str, str] = {}
        self._most_in_array: int | None = None
        self._silence: str | None = None  # why Slurm was unreachable at the last poll

    @property
    def poll_s(self) -> float:
        """Increases while nothing changes in the queue."""
        return self._wait_s

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if the plan's members cannot be Slurm jobs; does not call Slurm."""
        check_shapes(plan, site, one_allocation=config.launch.allocation == "one")
        check_time_limit(config.launch.time_limit_minutes or site.slurm.time_limit_minutes, site.slurm)

    def reach(self) -> None:
        """Raises if Slurm is unreachable."""
        self._most_in_array = reach_slurm()

    def script(self, record: JobRecord) -> str:
        """A batch script that trains the member."""
        return member_script(record)

    def batch_scripts(self, records: list[JobRecord]) -> dict[str, str]:
        """One array per job shape, or one allocation."""
        if _in_one_allocation(records):
            return dict([preview(records, 1, is_array=False)])
        parts = by_shape(records[: records[0].site.slurm.max_queued])
        return dict(preview(part, number, is_array=True) for number, part in enumerate(parts, start=1))

    def submit(self, waiting: list[JobRecord]) -> list[JobRecord]:
        """Submits as many as the site allows, over all runs: identical jobs as an array, or all in one allocation."""
        folder, slurm = waiting[0].folder, waiting[0].site.slurm
        self._longest_wait_s = slurm.poll_s
        if folder in self._unsent:
            _, records = self._unsent[folder]
            return records if self._send(*self._unsent[folder]) else []
        room = max(0, slurm.max_queued - len({each.job_id for each in self._all_underway()}))
        if _in_one_allocation(waiting):
            return self._submit(waiting, is_array=False) if room and not self.num_running(folder) else []
        submitted: list[JobRecord] = []
        for chunk in self._chunks(waiting[:room]):
            submitted += self._submit(chunk, is_array=True)
            if folder in self._unsent or folder in self.broken:
                break
        return submitted

    def _chunks(self, records: list[JobRecord]) -> list[list[JobRecord]]:
        """Splits records into arrays: of identical shape, up to MaxArraySize; empty if Slurm is unreachable."""
        try:
            size = self._most_in_array = self._most_in_array or reach_slurm()
        except SlurmUnreachableError:
            self._wait_longer()
            return []
        return [part[start : start + size] for part in by_shape(records) for start in range(0, len(part), size)]

    def _submit(self, records: list[JobRecord], *, is_array: bool) -> list[JobRecord]:
        """Submits the records and returns them, unless Slurm is unreachable; the submission is recorded first."""
        folder = records[0].folder
        tasks = tuple(Task(record.job.member, record.new_attempt()[0]) for record in records)
        number = max(folder.submission_numbers(), default=0) + 1
        submission = Submission(number, tasks, is_array=is_array, job_id=None, token=token_hex(4))
        write_submission(folder, submission)
        write_text(folder.submission_script(number), submission_script(records, submission))
        return records if self._send(submission, records) else []

    def _send(self, submission: Submission, records: list[JobRecord]) -> bool:
        """Calls sbatch; returns False if Slurm is unreachable and the submission has to be retried."""
        folder = records[0].folder
        try:
            # A lost reply must not start the members twice.
            job_id = _find_submitted(folder, submission) if folder in self._unsent else None
            job_id = job_id or _sbatch(folder, submission)
        except SlurmUnreachableError:
            self._unsent[folder] = (submission, records)
            self._wait_longer()
            return False
        except SlurmRefusedError as error:
            self._unsent.pop(folder, None)
            self._give_up(submission, records, str(error))
            return True
        self._unsent.pop(folder, None)
        taken = submission.with_job(job_id)
        write_submission(folder, taken)
        self._follow(taken, records)
        self._wait_s = FIRST_POLL_S
        return True

    def _give_up(self, submission: Submission, records: list[JobRecord], why: str) -> None:
        folder = records[0].folder
        self.broken[folder] = f"Slurm refused the job: {why}"
        write_submission(folder, replace(submission, gave_up=True))
        for record, task in zip(records, submission.tasks, strict=True):
            record_end(record, folder.attempt(task.member, task.attempt), "failed", self.broken[folder])

    def _follow(self, submission: Submission, records: list[JobRecord]) -> None:
        by_member = {record.job.member: record for record in records}
        for task in submission.tasks:
            if record := by_member.get(task.member):
                attempt = record.folder.attempt(task.member, task.attempt)
                job = Underway(record, attempt, submission.job_of(task) or "")
                self._underway.setdefault(record.folder, []).append(job)

    def adopt(self, records: list[JobRecord]) -> list[JobRecord]:
        """Returns members whose newest attempt is pending or running in Slurm, and records the ends of the others."""
        runs: dict[RunFolder, list[JobRecord]] = {}
        for record in records:
            runs.setdefault(record.folder, []).append(record)
        for folder, of_run in runs.items():
            self._longest_wait_s = of_run[0].site.slurm.poll_s
            self._follow_submitted(folder, of_run)
        while self._has_unknown(runs):
            self.poll()
            for folder in runs:
                self.take_ended(folder)
            if self._silence is not None:  # the user is present and can retry
                raise SlurmUnreachableError(f"The states of the run's jobs are unknown: {self._silence}")
            if self._has_unknown(runs):
                pause(FIRST_POLL_S)
        return [each.record for folder in runs for each in self._underway.get(folder, [])]

    def _has_unknown(self, folders: Iterable[RunFolder]) -> bool:
        return any(not each.is_known_to_continue for folder in folders for each in self._underway.get(folder, []))

    def _follow_submitted(self, folder: RunFolder, records: list[JobRecord]) -> None:
        """Follows jobs of earlier submissions whose members' newest attempts have no recorded end."""
        submissions = [self._known(folder, each) for each in read_submissions(folder) if not each.gave_up]
        newest = {record.job.member: folder.num_attempts(record.job.member) for record in records}
        for submission in submissions:
            current = [r for r in records if Task(r.job.member, newest[r.job.member]) in submission.tasks]
            open_ones = [r for r in current if not folder.attempt(r.job.member, newest[r.job.member]).exit.exists()]
            self._follow(submission, [record for record in open_ones if record.is_missing()])

    def _known(self, folder: RunFolder, submission: Submission) -> Submission:
        """Returns the submission with its job ID, looked up in the queue; given up if it never reached Slurm."""
        if submission.job_id is not None:
            return submission
        job_id = _find_submitted(folder, submission)
        known = submission.with_job(job_id) if job_id else replace(submission, gave_up=True)
        for task in known.tasks if known.gave_up else ():
            with suppress(OSError):  # what never reached Slurm was no attempt
                folder.attempt(task.member, task.attempt).path.rmdir()
        write_submission(folder, known)
        return known

    def poll(self) -> None:
        """Calls squeue once for the jobs of all runs."""
        names = sorted({job_name(folder) for folder, jobs in self._underway.items() if jobs})
        if not names:
            return
        try:
            self._queue, self._silence = read_queue(*names), None
        except (SlurmUnreachableError, SlurmRefusedError) as error:  # it may be restarting
            self._queue, self._silence = None, str(error)
        states = self._previous_states
        if self._queue is not None:
            states = {number: job.state.state for number, job in self._queue.items()}
        if states != self._previous_states:
            self._wait_s = FIRST_POLL_S
        else:
            self._wait_longer()
        self._previous_states = states

    def take_ended(self, folder: RunFolder) -> list[JobRecord]:
        """Returns the members of a run that ended, by their records or Slurm's at the last poll."""
        ended = []
        for each in list(self._underway.get(folder, [])):
            each.update(self._queue)
            if each.has_ended():
                self._end(each)
                ended.append(each.record)
        if ended:
            self._wait_s = FIRST_POLL_S
        return ended

    def _wait_longer(self) -> None:
        self._wait_s = min(self._longest_wait_s, self._wait_s * BACK_OFF)

    def _end(self, each: Underway) -> None:
        state, reason = explain_end(each)
        facts = {"job_id": each.job_id}
        if each.state is not None:
            facts |= {"slurm_state": each.state.state, "nodes": each.state.nodes}
        record_end(each.record, each.attempt, state, reason, **facts)
        self._underway[each.record.folder].remove(each)

    def _all_underway(self) -> Iterator[Underway]:
        return chain.from_iterable(self._underway.values())

    def last_states(self, folder: RunFolder) -> dict[int, QueueState]:
        """Returns the last state that Slurm reported of each job under way."""
        jobs = self._underway.get(folder, [])
        return {each.record.job.member: each.state for each in jobs if each.state is not None}

    def num_running(self, folder: RunFolder) -> int:
        """Returns the number of members pending or running in Slurm."""
        return len(self._underway.get(folder, []))

    def cancel(self, folder: RunFolder) -> None:
        """Cancels all jobs of the run, waits for their end and records it."""
        jobs = sorted({each.job_id for each in self._underway.get(folder, [])})
        if not jobs:
            return
        call("scancel", "--quiet", *jobs)
        deadline = time.monotonic() + CANCEL_TIMEOUT_S
        while self.num_running(folder) and time.monotonic() < deadline:
            self.poll()
            self.take_ended(folder)
            time.sleep(FIRST_POLL_S)
        for each in self._underway.pop(folder):
            record_end(each.record, each.attempt, "stopped", "cancelled; Slurm has not ended the job yet")

    def queue(self, folder: RunFolder) -> dict[int, QueueState]:
        """Queries the state of each member's newest job."""
        jobs = read_queue(job_name(folder))
        found = {}
        for each in read_submissions(folder):
            submission = each.with_job(each.job_id or _id_of(each, jobs) or "")
            for task in submission.tasks:
                if job := find_job(jobs, submission.job_of(task) or ""):
                    found[task.member] = job.state
        return found


def _sbatch(folder: RunFolder, submission: Submission) -> str:
    """Returns the job ID that sbatch prints, or looks it up in the queue."""
    try:
        return submit(folder.submission_output(submission.number), folder.submission_script(submission.number))
    except NoJobIdError:
        if job_id := _find_submitted(folder, submission):
            return job_id
        raise


def _find_submitted(folder: RunFolder, submission: Submission) -> str | None:
    """Returns the ID of the job with the submission's comment."""
    return _id_of(submission, read_queue(job_name(folder)))


def _id_of(submission: Submission, jobs: dict[str, QueuedJob]) -> str | None:
    found = (number for number, job in jobs.items() if job.comment == submission.comment)
    return next((number.split("_")[0] for number in found), None)


def _in_one_allocation(records: list[JobRecord]) -> bool:
    return bool(records) and records[0].config.launch.allocation == "one"
