"""The jobs of runs in Slurm: all of them in one call, and the final state of one that has left the queue."""

import re
from pathlib import Path
from typing import NamedTuple

from trainmark.launch.slurm.request import escaped_output
from trainmark.machine.slurm.programs import (
    SlurmMissingError,
    SlurmRefusedError,
    SlurmSilentError,
    SlurmUnreachableError,
    call,
    in_one_line,
    last_of,
)
from trainmark.spec.status import QueueState

SEPARATOR = "|"
QUEUE_FORMAT = SEPARATOR.join(("%i", "%T", "%N", "%k", "%r"))  # number, state, nodes, comment, reason
ACCOUNT_FORMAT = "--format=State,NodeList,ExitCode"


class QueuedJob(NamedTuple):
    """A job of the run, and the comment that it was submitted with."""

    state: QueueState
    comment: str


def submit(output: Path, script: Path) -> str:
    """The number of the job that sbatch made of the script; raises, with what it printed, if it named none."""
    answer = call("sbatch", "--parsable", f"--output={escaped_output(output)}", str(script))
    # "123;cluster" where there are several; a site's wrapper may print more lines.
    if numbers := re.findall(r"^(\d+)(?:;\S*)?$", answer, re.MULTILINE):
        return str(numbers[-1])
    raise SlurmSilentError(f"sbatch named no job, but ended well. It printed: {in_one_line(answer) or 'nothing'}")


def read_queue(*job_names: str) -> dict[str, QueuedJob]:
    """Every job of these names which Slurm remembers, by one call; tasks of arrays one by one, by their numbers."""
    names = ",".join(job_names)
    text = call("squeue", "--noheader", "--array", "--states=all", f"--name={names}", f"--format={QUEUE_FORMAT}")
    return parse_queue(text)


def parse_queue(text: str) -> dict[str, QueuedJob]:
    """The jobs in squeue's answer."""
    found = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split(SEPARATOR, 4)]
        if len(words) == 5:
            number, state, nodes, comment, reason = words
            found[number] = QueuedJob(QueueState(number, state, nodes, "" if reason == "None" else reason), comment)
    return found


def find_job(queue: dict[str, QueuedJob], job_id: str) -> QueuedJob | None:
    """A job, or the rest of an array that was cancelled before this task of it had a number of its own."""
    if job_id in queue:
        return queue[job_id]
    array, _, task = job_id.partition("_")
    return next((job for number, job in queue.items() if task and number.partition("_[")[0] == array), None)


def final_state(job_id: str) -> QueueState | None:
    """The end of a job that the queue no longer shows: by accounting, else by the controller; None: unknown."""
    for ask in (_from_accounting, _from_controller):
        try:
            found = ask(job_id)
        except (SlurmRefusedError, SlurmMissingError):  # sites without accounting exist
            continue
        if found is not None:
            return found
    return None


def _from_accounting(job_id: str) -> QueueState | None:
    # Not --json: that of Slurm 22.05 gives exit code 0 for failed jobs.
    text = call("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job_id}", ACCOUNT_FORMAT)
    for line in text.splitlines():
        state, _, rest = line.partition(SEPARATOR)
        nodes, _, exit_code = rest.partition(SEPARATOR)
        if state:
            return QueueState(job_id, state.split()[0], nodes, exit_code=_code(exit_code))  # "CANCELLED by 1000"
    return None


def _from_controller(job_id: str) -> QueueState | None:
    return parse_job(job_id, call("scontrol", "--oneliner", "show", "job", job_id))


def parse_job(job_id: str, text: str) -> QueueState | None:
    """The job in scontrol's answer."""
    fields = dict(re.findall(r"(?:^|\s)(JobState|NodeList|Reason|ExitCode)=(\S*)", text))
    if "JobState" not in fields:
        return None
    nodes, reason = fields.get("NodeList", ""), fields.get("Reason", "")
    return QueueState(
        job_id,
        fields["JobState"],
        "" if nodes == "(null)" else nodes,
        "" if reason == "None" else reason,
        _code(fields.get("ExitCode", "")),
    )


def _code(text: str) -> int | None:
    """The exit code of a batch script: the first part of Slurm's "28:0", whose second is a signal."""
    first = text.partition(":")[0]
    return int(first) if first.isdigit() else None


def reach_slurm() -> int:
    """The most tasks of an array; raises if Slurm does not answer."""
    try:
        found = re.search(r"MaxArraySize\s*=\s*(\d+)", call("scontrol", "show", "config"))
    except (SlurmUnreachableError, SlurmRefusedError) as error:
        raise SlurmUnreachableError(
            f"Slurm does not answer here: {last_of(error)}. Run where `sinfo` works: on a login node, with SLURM_CONF "
            "set where that is needed; if its controller is away, try again later."
        ) from None
    return max(1, int(found[1])) if found else 1
