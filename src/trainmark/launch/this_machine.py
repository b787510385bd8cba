"""Whether the cores and accelerators that a plan uses are there on this machine."""

import os

from trainmark.machine.accelerators import find_accelerators
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Plan
from trainmark.spec.units import show_cores


def check_this_machine(plan: Plan) -> None:
    """Raises if the plan uses cores that this process may not use, or accelerators that do not exist."""
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
