"""Starts members as processes on this machine, concurrently on their own cores, the rest in a queue."""

import os

from trainmark.launch.blame import explain_failure
from trainmark.launch.commands import as_comment, rank_command
from trainmark.launch.interpreter import check_interpreter, modules_of_rank
from trainmark.launch.processes import ProcessCommand, ProcessLauncher
from trainmark.launch.start_barrier import SAME_STORAGE_DELAY_S
from trainmark.machine.accelerators import find_accelerators
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.site import Site
from trainmark.spec.units import counted, show_cores


def check_this_machine(config: RunConfig, plan: Plan, site: Site) -> None:
    """Raises if the plan uses cores outside this process's affinity, missing accelerators or an unfit Python."""
    planned = {core for job in plan.first_jobs for rank in job.ranks for core in rank.cores}
    missing = planned - os.sched_getaffinity(0)
    if missing:
        raise PlanError(
            f"The plan uses cores {show_cores(tuple(missing))}, but this process may use only "
            f"{show_cores(tuple(os.sched_getaffinity(0)))}. Correct the cores in the --site file."
        )
    devices = {rank.accelerator for job in plan.first_jobs for rank in job.ranks} - {None}
    absent = devices - {accelerator.index for accelerator in find_accelerators()}
    if absent:
        raise PlanError(
            f"The plan uses accelerator {', '.join(map(str, absent))}, but this machine does not have it. "
            "Correct the accelerators in the --site file."
        )
    if config.launch.python is not None:
        check_interpreter(config.launch.python, site, modules_of_rank(config))


# Workers of one machine communicate over loopback; resolving the hostname can take seconds.
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo"}


def launcher() -> ProcessLauncher:
    """Starts members as processes on this machine, concurrently on their own cores, the rest in a queue."""
    return ProcessLauncher(LocalProcesses())


class LocalProcesses:
    """One process per rank, with the rank's exit code."""

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Raises if the plan needs other machines, or cores outside this process's affinity."""
        nodes = {rank.node for job in plan.first_jobs for rank in job.ranks}
        if len(nodes) > 1:
            raise PlanError(
                f"The launcher 'local' starts jobs on this machine only, but the plan uses {len(nodes)} nodes. "
                "Describe one node with --site, or choose another --launcher."
            )
        check_this_machine(config, plan, site)

    def script(self, record: JobRecord) -> str:
        """The commands of all ranks, run concurrently."""
        job, workers = record.job, counted(len(record.job.ranks), "worker")
        lines = [
            "#!/bin/bash",
            as_comment(f"Run {record.folder.run_id}, member {job.member}: {workers} on this machine."),
            "# trainmark adds options to these commands, so that members start together and end with it.",
            "pids=()",
        ]
        for rank in job.ranks:
            lines.append(f"# rank {rank.rank} on cores {show_cores(rank.cores)}")
            lines.append(f"{rank_command(record, rank, 1, ENVIRONMENT, supervised_by=None).as_shell()} &")
            lines.append("pids+=($!)")
        lines += ["status=0", 'for pid in "${pids[@]}"; do wait "$pid" || status=$?; done', 'exit "$status"']
        return "\n".join(lines) + "\n"

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """The worker of each rank."""
        found = []
        for rank in record.job.ranks:
            argv, environment = rank_command(record, rank, number, ENVIRONMENT, supervised_by=os.getpid())
            log, is_held = attempt.rank_log(rank.rank), bool(record.site.container)
            found.append(ProcessCommand(str(rank.rank), argv, environment, log, holds_input=is_held))
        return found

    def start_delay_s(self, record: JobRecord) -> float:
        """Short: all ranks are on this machine."""
        return SAME_STORAGE_DELAY_S

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """No: a rank that fails ends its process."""
        return False

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """The rank that failed first, by exit codes and recorded errors."""
        return explain_failure(attempt, codes)
