"""Preflight: a small job on one node of each group checks whether runs would work there."""

import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainmark.launch.blame import message_lines
from trainmark.launch.commands import as_comment, module_argv
from trainmark.launch.slurm.node_report import judge_count, judge_missing_report, judge_node, judge_setup
from trainmark.launch.slurm.queue import final_state, reach_slurm, read_queue, submit
from trainmark.launch.slurm.request import JobShape, header_lines
from trainmark.launch.slurm.start import failed_setup, setup_lines
from trainmark.machine.slurm.programs import SlurmRefusedError, call
from trainmark.machine.software import describe_software
from trainmark.machine.stop import pause, stoppable
from trainmark.machine.storage import refresh_nfs_cache
from trainmark.spec.errors import InterruptedRunError, TrainmarkError
from trainmark.spec.files import read_json, write_text
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.status import Finding

MINUTES = 5  # the job's time limit
POLL_S = 0.5
VISIBLE_WITHIN_S = 10.0  # until the report of a job that has ended is visible here


def preflight(
    site: Site, runs_dir: Path, patience_s: float, say: Callable[[str], None], python: str | None = None
) -> list[Finding]:
    """Returns the findings of a small job per group; jobs that do not start in time, and on Ctrl-C, are cancelled.

    `python` is the interpreter of the workers, if a run sets one.
    """
    reach_slurm()
    folder = runs_dir.resolve() / f".preflight-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    try:
        with stoppable("; its job was cancelled"):
            return [
                found
                for number, group in enumerate(site.groups)
                for found in _group(site, group, folder, number, patience_s, say, python)
            ]
    except InterruptedRunError as stopped:
        raise _without_jobs(_job_name(folder), stopped) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _without_jobs(job_name: str, stopped: InterruptedRunError) -> InterruptedRunError:
    """Cancels the jobs by name, since sbatch may not have returned the ID yet; returns the error to raise."""
    try:
        call("scancel", "--quiet", f"--name={job_name}")
    except TrainmarkError as error:
        return InterruptedRunError(
            f"Stopped; its job may still be queued: {error}. Cancel it: scancel --name={job_name}"
        )
    return stopped


def _job_name(folder: Path) -> str:
    return folder.name.removeprefix(".")


def _group(
    site: Site,
    group: NodeGroup,
    folder: Path,
    number: int,
    patience_s: float,
    say: Callable[[str], None],
    python: str | None,
) -> Iterator[Finding]:
    label = f"group {number + 1}" + (f" ({group.partition})" if group.partition else "")
    yield judge_count(label, group, _nodes_of(group))
    token, report = folder / f"token-{number}", folder / f"report-{number}.json"
    write_text(token, secrets.token_hex(8))
    script = folder / f"job-{number}.sh"
    write_text(script, preflight_script(site, group, token, report, job_name=_job_name(folder), python=python))
    try:
        job_id = submit(folder / f"out-{number}", script)
    except SlurmRefusedError as error:
        yield Finding(
            f"{label}: submission",
            "problem",
            str(error),
            "Correct the group, account and options in the site file.",
        )
        return
    say(f"{label}: job {job_id} submitted")
    answer = _wait(report, job_id, _job_name(folder), patience_s)
    printed = message_lines(folder / f"out-{number}")
    if site.setup:
        yield judge_setup(label, failed_setup(printed))
    if answer is None:
        yield judge_missing_report(label, job_id, final_state(job_id), printed)
        call("scancel", "--quiet", job_id)
        return
    here = {
        "software": describe_software(),
        "wall_s": report.stat().st_mtime,
        "free_bytes": shutil.disk_usage(folder).free,
    }
    yield from judge_node(label, group, answer, here, token.read_text(), python)


def _nodes_of(group: NodeGroup) -> set[str]:
    """Returns the nodes of the group's partition, or all nodes."""
    partition = [f"--partition={group.partition}"] if group.partition else []
    return set(call("sinfo", "--noheader", "--Node", "--format=%N", *partition).split())


def _wait(report: Path, job_id: str, job_name: str, patience_s: float) -> dict[str, Any] | None:
    """Returns the node's report; None if the job ended without one or did not start in time."""
    deadline, gone_since = time.monotonic() + patience_s, None
    while time.monotonic() < deadline:
        try:
            found: dict[str, Any] = read_json(report)
            return found
        except (OSError, ValueError):
            job = read_queue(job_name).get(job_id)
        refresh_nfs_cache(report.parent)
        if job is None or not job.state.is_active:
            gone_since = gone_since or time.monotonic()
            if time.monotonic() - gone_since > VISIBLE_WITHIN_S:
                return None
        pause(POLL_S)
    return None


def preflight_script(
    site: Site, group: NodeGroup, token: Path, report: Path, *, job_name: str, python: str | None = None
) -> str:
    """Returns the script of a job with one task on one node of the group, with the cores of one slot."""
    shape = JobShape(1, 1, 1, len(group.slots[0].cores), has_whole_nodes=False, has_accelerators=False)
    words = [*module_argv("trainmark.launch.slurm.node_report", site, python), str(token), str(report)]
    words += ["--local-storage", group.local_storage] if group.local_storage else []
    bind = "cores" if site.slurm.binding == "slurm" else "none"
    start = [
        "srun",
        "--ntasks=1",
        f"--cpus-per-task={shape.cores_per_rank}",
        "--threads-per-core=1",
        f"--cpu-bind={bind}",
    ]
    lines = [
        "#!/bin/bash",
        *header_lines(site, group, shape, job_name=job_name, comment=None, minutes=MINUTES),
        as_comment(f"Preflight of site {site.name}."),
        *setup_lines(site.setup),
        shlex.join([*start, "--mpi=none", "--export=ALL", *words]),
    ]
    return "\n".join(lines) + "\n"
