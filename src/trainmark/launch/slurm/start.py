"""Script lines of a job: the site's setup, and starting a member's ranks by srun or mpirun."""

import re
import shlex
from pathlib import Path

from trainmark.launch.blame import message_lines
from trainmark.launch.commands import shared_environment, worker_argv
from trainmark.launch.slurm.request import JobShape, accelerators_of_ranks, escaped_output
from trainmark.spec.job_record import JobRecord

FAILED = "trainmark: setup failed with exit code"
REPORT = re.compile(rf"{FAILED} (\d+): (.*)")


def setup_lines(setup: tuple[str, ...], *, at_exit: str = "") -> list[str]:
    """Returns the setup lines, with a message for each that fails; `at_exit` runs if one exits the script."""
    if not setup:
        return []
    report = f'echo "{FAILED} $status: $BASH_COMMAND" >&2'
    # A failing line may be harmless, so the script continues; failures inside a sourced file are ignored. The site's
    # own traps may replace these.
    return [
        "in_setup=${#BASH_SOURCE[@]}",
        f"trap 'status=$?; [ \"$in_setup\" != ${{#BASH_SOURCE[@]}} ] || {report}' ERR",
        f"trap 'status=$?; [ -z \"$in_setup\" ] || {{ {report}; {at_exit or ':'}; }}' EXIT",
        *setup,
        "set +e; in_setup=",
    ]


def failed_setup(printed: list[str]) -> str | None:
    """Returns the first setup line that failed, with its output, from a job's output; None: none failed."""
    for number, line in enumerate(printed):
        if found := REPORT.fullmatch(line):
            words = f"; it printed: {printed[number - 1]}" if number else ""
            return f"setup failed with exit code {found[1]}: {found[2]}{words}"
    return None


def explain_setup(log: Path) -> str | None:
    """Returns the failed setup line from a job's log; None: none failed."""
    failure = failed_setup(message_lines(log))
    return None if failure is None else f"{failure} (log: {log})"


WAIT_FOR_START = "TRAINMARK_WAIT_FOR_START"  # set for members that start together


def start_lines(record: JobRecord, shape: JobShape) -> list[str]:
    """Returns the lines that run all ranks and set `status` to the exit code."""
    if record.site.slurm.starter == "srun":
        return [f"{_srun(record, shape)} \\", f"  {_worker(record, 'slurm')}", "status=$?"]
    # Slurm signals the batch script before the time limit; mpirun forwards the signal to its ranks.
    return [
        f"{_mpirun(record, shape)} \\",
        f"  {_worker(record, 'mpi', '--own-log')} </dev/null &",
        "mpirun=$!",
        "trap 'kill -USR2 \"$mpirun\"' USR2",
        'wait "$mpirun"',
        "status=$?",
        'while kill -0 "$mpirun" 2>/dev/null; do wait "$mpirun"; status=$?; done',
    ]


def _srun(record: JobRecord, shape: JobShape) -> str:
    """srun with all options explicit: what it inherits differs between versions."""
    slurm = record.site.slurm
    words = [
        "srun",
        f"--nodes={shape.nodes}",
        f"--ntasks={shape.ranks}",
        f"--ntasks-per-node={shape.ranks_per_node}",
        f"--cpus-per-task={shape.cores_per_rank}",
        "--threads-per-core=1",
        f"--cpu-bind={'cores' if slurm.binding == 'slurm' else 'none'}",
        "--distribution=block:block",
        "--kill-on-bad-exit=1",
        f"--mpi={slurm.mpi or 'none'}",
        "--export=ALL",
    ]
    if accelerators := accelerators_of_ranks(shape, record.group):
        # By default a step takes all of the job's GPUs, and concurrent steps would wait.
        words.append(f"--gres={accelerators}")
    folder = escaped_output(record.folder.job(record.job.member))
    return f'{shlex.join(words)} --output={shlex.quote(folder)}/attempt-"$attempt"/rank-%t.log "$@"'


def _mpirun(record: JobRecord, shape: JobShape) -> str:
    """mpirun fills node by node; ranks bind themselves (see launch/mpi.py)."""
    if record.site.slurm.starter == "mpirun":
        words = ["mpirun", "--map-by", f"ppr:{shape.ranks_per_node}:node:OVERSUBSCRIBE", "--bind-to", "none"]
        return shlex.join([*words, "-np", str(shape.ranks)])
    words = ["mpiexec.hydra", "-bind-to", "none", "-ppn", str(shape.ranks_per_node)]
    return shlex.join([*words, "-n", str(shape.ranks)])


def _worker(record: JobRecord, rank_from: str, *more: str) -> str:
    variables = shared_environment(record.config.launch, record.job.ranks)
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), *worker_argv(record)]
    words += ["--rank", rank_from, *more]
    # Only an allocation's script gives the start signal: by hand, the member starts at once.
    waits = f" ${{{WAIT_FOR_START}:+--wait-for-start}}" if record.config.launch.allocation == "one" else ""
    return f'{shlex.join(words)} --attempt "$attempt"{waits}'
