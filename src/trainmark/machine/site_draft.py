"""The draft of a site file: of the cluster, where there is Slurm, else of this machine alone."""

import shutil
import socket
from pathlib import Path

from trainmark.machine.draft_text import Draft
from trainmark.machine.local_site import local_site
from trainmark.machine.slurm.draft import ask_slurm, draft_cluster
from trainmark.machine.slurm.groups import Here
from trainmark.machine.topology import SYSTEM, read_topology
from trainmark.spec.units import parse_cores


def draft_site(*, ask_scheduler: bool = True) -> Draft:
    """The draft for where this process runs."""
    if ask_scheduler and shutil.which("scontrol"):
        return draft_cluster(ask_slurm(), _here())
    return _draft_machine("Slurm was not asked" if not ask_scheduler else "there is no scontrol here")


def _draft_machine(why: str) -> Draft:
    site = local_site()
    return Draft(
        site=site,
        notes=(f"Drafted from this machine alone: {why}.",),
        group_notes=(("One slot per accelerator, else per NUMA domain, or two halves of a single one.",),),
    )


def _here(system: Path = SYSTEM) -> Here:
    """This machine with all its cores, also within a job that may use some of them."""
    try:
        online = set(parse_cores((system / "cpu" / "online").read_text()))
    except OSError:
        online = None
    return Here(socket.gethostname(), read_topology(system, online))
