"""Starts the ranks of each member by an mpirun of its own, on this machine or on the nodes that the site names."""

import os
import shlex
from functools import cached_property

from trainmark.launch.blame import explain_mpirun
from trainmark.launch.commands import as_comment, worker_words
from trainmark.launch.environment import shared_environment
from trainmark.launch.mpirun import Mpirun, check_root, find_mpirun, hosts_of, mpirun_words
from trainmark.launch.processes import ProcessLauncher
from trainmark.launch.start_gun import SAME_STORAGE_DELAY_S, SHARED_STORAGE_DELAY_S
from trainmark.launch.starter import ProcessCommand
from trainmark.launch.this_machine import check_this_machine
from trainmark.machine.orphans import ending_with_us
from trainmark.spec.config import RunConfig
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Plan
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.site import Site
from trainmark.spec.units import counted


def launcher() -> ProcessLauncher:
    """Starts the ranks of each member by an mpirun of its own, on this machine or on the nodes that the site names."""
    return ProcessLauncher(ByMpirun())


class ByMpirun:
    """One mpirun per member. Its exit code says little; the ranks record their ends themselves."""

    @cached_property
    def _mpirun(self) -> Mpirun:
        return find_mpirun()

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """An error if there is no mpirun, or it refuses this user, or the plan's cores are not on this machine.

        Cores of other nodes are for the ranks to check.
        """
        check_root(self._mpirun, os.geteuid(), os.environ)
        if site.num_nodes == 1:
            check_this_machine(plan)

    def script(self, record: JobRecord) -> str:
        """The command of mpirun."""
        ranks = len(record.job.ranks)
        lines = [
            "#!/bin/bash",
            as_comment(
                f"Run {record.folder.run_id}, member {record.job.member}: {counted(ranks, 'worker')} by mpirun."
            ),
            "# trainmark runs the same command with --wait-for-start and --own-log: members start together, and each",
            "# rank has a log of its own. Each rank takes the cores that the plan gives it, and checks them.",
            f"{shlex.join(self._words(record, 1))} </dev/null",
        ]
        return "\n".join(lines) + "\n"

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """mpirun alone; it has no variables of its own."""
        argv = ending_with_us((*self._words(record, number), "--wait-for-start", "--own-log"))
        return [ProcessCommand("mpirun", argv, {}, attempt.mpirun_log)]

    def _words(self, record: JobRecord, number: int) -> list[str]:
        ranks = record.job.ranks
        hosts = hosts_of(ranks, is_this_machine=record.site.num_nodes == 1)
        # By `env`, not by mpirun's own options: those differ among its makers, and some would change mpirun itself.
        variables = [f"{name}={value}" for name, value in shared_environment(record.config.launch, ranks).items()]
        worker = [*worker_words(record), "--rank", "mpi", "--attempt", str(number)]
        return [*mpirun_words(self._mpirun, hosts), "env", *variables, *worker]

    def start_delay_s(self, record: JobRecord) -> float:
        """Little on this machine; elsewhere as long as shared storage takes."""
        return SAME_STORAGE_DELAY_S if record.site.num_nodes == 1 else SHARED_STORAGE_DELAY_S

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """Whether a rank has left its mark: Hydra lets the others wait for it for ever."""
        return attempt.failed.exists()

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """The rank that failed first, by the ranks' own words and by their silence."""
        return explain_mpirun(attempt, len(record.job.ranks), codes[0])
