"""Slurm's queue: submitting, the states of all jobs in one call, and the final state of finished ones."""

import re
from pathlib import Path
from typing import NamedTuple

from trainmark.launch.slurm.request import escaped_output
from trainmark.machine.slurm.programs import (
    NoJobIdError,
    SlurmMissingError,
    SlurmRefusedError,
    SlurmUnreachableError,
    call,
    in_one_line,
    last_of,
)
from trainmark.spec.status import QueueState

SEPARATOR = "|"
QUEUE_FORMAT = SEPARATOR.join(("%i", "%T", "%N", "%k", "%r"))  # job ID, state, nodes, comment, reason
ACCOUNT_FORMAT = "--format=State,NodeList,ExitCode"


class QueuedJob(NamedTuple):
    """A job's state and its submission comment."""

    state: QueueState
    comment: str


def submit(output: Path, script: Path) -> str:
    """Submits the script and returns the job ID; raises, with sbatch's output, if it printed none."""
    answer = call("sbatch", "--parsable", f"--output={escaped_output(output)}", str(script))
    # "123;cluster" on multi-cluster sites; a site's wrapper may print more lines.
    if numbers := re.findall(r"^(\d+)(?:;\S*)?$", answer, re.MULTILINE):
        return str(numbers[-1])
    raise NoJobIdError(f"sbatch succeeded without printing a job ID. It printed: {in_one_line(answer) or 'nothing'}")


def read_queue(*job_names: str) -> dict[str, QueuedJob]:
    """Returns all jobs of these names that Slurm remembers, by job ID, array tasks separately, in one call."""
    names = ",".join(job_names)
    text = call("squeue", "--noheader", "--array", "--states=all", f"--name={names}", f"--format={QUEUE_FORMAT}")
    return parse_queue(text)


def parse_queue(text: str) -> dict[str, QueuedJob]:
    """Parses squeue's output."""
    found = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split(SEPARATOR, 4)]
        if len(words) == 5:
            number, state, nodes, comment, reason = words
            found[number] = QueuedJob(QueueState(number, state, nodes, "" if reason == "None" else reason), comment)
    return found


def find_job(queue: dict[str, QueuedJob], job_id: str) -> QueuedJob | None:
    """Finds a job, or the rest of an array that was cancelled before this task had its own record."""
    if job_id in queue:
        return queue[job_id]
    array, _, task = job_id.partition("_")
    return next((job for number, job in queue.items() if task and number.partition("_[")[0] == array), None)


def final_state(job_id: str) -> QueueState | None:
    """Returns the final state of a job that left the queue, by sacct, else by scontrol; None: unknown."""
    for ask in (_from_accounting, _from_controller):
        try:
            found = ask(job_id)
        except (SlurmRefusedError, SlurmMissingError):  # not all sites have accounting
            continue
        if found is not None:
            return found
    return None


def _from_accounting(job_id: str) -> QueueState | None:
    # Not --json, which gives exit code 0 for failed jobs in Slurm 22.05.
    text = call("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job_id}", ACCOUNT_FORMAT)
    for line in text.splitlines():
        state, _, rest = line.partition(SEPARATOR)
        nodes, _, exit_code = rest.partition(SEPARATOR)
        if state:
            return QueueState(job_id, state.split()[0], nodes, exit_code=_exit_code(exit_code))  # "CANCELLED by 1000"
    return None


def _from_controller(job_id: str) -> QueueState | None:
    return parse_job(job_id, call("scontrol", "--oneliner", "show", "job", job_id))


def parse_job(job_id: str, text: str) -> QueueState | None:
    """Parses scontrol's output."""
    fields = dict(re.findall(r"(?:^|\s)(JobState|NodeList|Reason|ExitCode)=(\S*)", text))
    if "JobState" not in fields:
        return None
    nodes, reason = fields.get("NodeList", ""), fields.get("Reason", "")
    return QueueState(
        job_id,
        fields["JobState"],
        "" if nodes == "(null)" else nodes,
        "" if reason == "None" else reason,
        _exit_code(fields.get("ExitCode", "")),
    )


def _exit_code(text: str) -> int | None:
    """Returns the exit code in Slurm's "CODE:SIGNAL"."""
    first = text.partition(":")[0]
    return int(first) if first.isdigit() else None


def reach_slurm() -> int:
    """Returns MaxArraySize; raises if Slurm is unreachable."""
    try:
        found = re.search(r"MaxArraySize\s*=\s*(\d+)", call("scontrol", "show", "config"))
    except (SlurmUnreachableError, SlurmRefusedError) as error:
        raise SlurmUnreachableError(
            f"Slurm is unreachable: {last_of(error)}. Run where `sinfo` works: on a login node, with SLURM_CONF set if "
            "needed; if slurmctld is down, try again later."
        ) from None
    return max(1, int(found[1])) if found else 1
