"""Batch scripts: job.sh of each member, and the scripts that are submitted for several members."""

import shlex

from trainmark.launch.commands import as_comment, module_argv
from trainmark.launch.slurm.request import JobShape, header_lines, memory_of_ranks, shape_of_all, shape_of_member
from trainmark.launch.slurm.start import WAIT_FOR_START, setup_lines, start_lines
from trainmark.launch.slurm.submission import Submission, Task
from trainmark.spec.job_record import JobRecord
from trainmark.spec.run_folder import RunFolder, member_name


def job_name(folder: RunFolder) -> str:
    """Returns the job name of all jobs of a run."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-._") else "_" for letter in folder.run_id
    )


def member_script(record: JobRecord) -> str:
    """Returns job.sh, which trains one member; by hand: `sbatch job.sh`, as attempt 1."""
    shape, job = shape_of_member(record), record.job
    lines = [
        "#!/bin/bash",
        *_header(record, shape),
        as_comment(
            f"Run {record.folder.run_id}, member {job.member}: {shape.ranks} worker(s) on {shape.nodes} node(s)."
        ),
        "# Usage: job.sh [ATTEMPT [OPTIONS OF SRUN]]",
        "attempt=${1:-1}",
        "shift",
        f"folder={shlex.quote(str(record.folder.job(job.member)))}/attempt-$attempt",
        'mkdir -p "$folder"',
        'exec >>"$folder/job.log" 2>&1',  # not sbatch's output file, which the tasks of an array share
        # A requeued job would overwrite the measurements of its first start.
        'if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then',
        '  echo "Slurm has requeued this job; trainmark makes a new attempt instead" >&2',
        '  echo 75 >"$folder/status"',
        "  exit 75",
        "fi",
        *setup_lines(record.site.setup, at_exit='echo "$status" >"$folder/status"'),
        *start_lines(record, shape),
        'echo "$status" >"$folder/status"',
        'exit "$status"',
    ]
    return "\n".join(lines) + "\n"


def array_script(records: list[JobRecord], submission: Submission) -> str:
    """Returns the script of a job array: each task runs one member's job.sh."""
    first = records[0]
    running = first.site.slurm.max_running
    throttle = f"%{running}" if running is not None else ""
    lines = [
        "#!/bin/bash",
        *_header(first, shape_of_member(first), submission),
        f"#SBATCH --array=0-{len(records) - 1}{throttle}",
        as_comment(f"Run {first.folder.run_id}: {len(records)} members, each by its own job.sh."),
        f"members=({' '.join(member_name(task.member) for task in submission.tasks)})",
        f"attempts=({' '.join(str(task.attempt) for task in submission.tasks)})",
        "task=$SLURM_ARRAY_TASK_ID",
        f'exec /bin/bash {shlex.quote(str(first.folder.path))}/jobs/"${{members[task]}}"/job.sh "${{attempts[task]}}"',
    ]
    return "\n".join(lines) + "\n"


def allocation_script(records: list[JobRecord], submission: Submission) -> str:
    """Returns the script of one allocation: lanes run concurrently, the members of a lane in turn."""
    first = records[0]
    attempts = {task.member: task.attempt for task in submission.tasks}
    nodes = _nodes_in_order(records)
    lines = [
        "#!/bin/bash",
        *_header(first, shape_of_all(records), submission),
        as_comment(f"Run {first.folder.run_id}: {len(records)} members in one allocation."),
        f"jobs={shlex.quote(str(first.folder.path))}/jobs",
    ]
    together = [record for record in records if record.job.is_first_of_lane]
    if together:
        lines.append("# Start barrier: the first member of each lane starts once all of them are ready.")
        lines += ["(", *first.site.setup, _start_barrier(together, attempts), ") &"]
    lanes: dict[int, list[JobRecord]] = {}
    for record in records:
        lanes.setdefault(record.job.lane, []).append(record)
    for lane, members in sorted(lanes.items()):
        shape = shape_of_member(members[0])
        offset = nodes[members[0].job.ranks[0].node]
        memory = memory_of_ranks(shape, first.group.memory_gib_per_slot)
        # Without --mem a step would take all memory of its nodes, and the next one would wait.
        options = f"--exact --relative={offset}" + (f" --mem={memory}" if memory else "")
        place = f"node {offset}" if shape.nodes == 1 else f"nodes {offset} to {offset + shape.nodes - 1}"
        lines += [f"# lane {lane}: {place} of the allocation", "("]
        for record in members:
            member = record.job.member
            waits = f"{WAIT_FOR_START}=1 " if record in together else ""
            lines.append(f'  {waits}/bin/bash "$jobs"/{member_name(member)}/job.sh {attempts[member]} {options}')
        lines.append(") &")
    lines.append("wait")
    return "\n".join(lines) + "\n"


def submission_script(records: list[JobRecord], submission: Submission) -> str:
    """Returns the script for sbatch."""
    return array_script(records, submission) if submission.is_array else allocation_script(records, submission)


def preview(records: list[JobRecord], number: int, *, is_array: bool) -> tuple[str, str]:
    """Returns file name and text of a submission of first attempts."""
    tasks = tuple(Task(record.job.member, 1) for record in records)
    submission = Submission(number, tasks, is_array=is_array, job_id=None)
    folder = records[0].folder
    return folder.name_of(folder.submission_script(number)), submission_script(records, submission)


def _header(record: JobRecord, shape: JobShape, submission: Submission | None = None) -> list[str]:
    launch = record.config.launch
    return header_lines(
        record.site,
        record.group,
        shape,
        job_name=job_name(record.folder),
        comment=submission.comment if submission else None,
        minutes=launch.time_limit_minutes or record.site.slurm.time_limit_minutes,
    )


def _start_barrier(records: list[JobRecord], attempts: dict[int, int]) -> str:
    site, folder = records[0].site, records[0].folder
    words = [*module_argv("trainmark.launch.start_barrier", site), str(folder.path)]
    return shlex.join([*words, *(f"{each.job.member}:{attempts[each.job.member]}" for each in records)])


def _nodes_in_order(records: list[JobRecord]) -> dict[str, int]:
    """Returns the index of each planned node in lane order, which is the allocation's node order."""
    lanes = {record.job.lane: record for record in records}
    names = dict.fromkeys(rank.node for lane in sorted(lanes) for rank in lanes[lane].job.ranks)
    return {name: place for place, name in enumerate(names)}
