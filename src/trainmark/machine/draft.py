"""A site drafted from Slurm's description of the cluster, or from this machine alone."""

import shutil
import socket
from pathlib import Path
from typing import Literal, NamedTuple

from trainmark.machine.local_site import local_site
from trainmark.machine.site_file import SiteDraft
from trainmark.machine.slurm.groups import Here, IdenticalNodes, as_node_groups, group_identical_nodes
from trainmark.machine.slurm.nodes import SlurmNode, read_nodes
from trainmark.machine.slurm.notes import count_states, group_notes
from trainmark.machine.slurm.programs import SlurmRefusedError, SlurmUnreachableError, call, last_of
from trainmark.machine.slurm.scontrol import SlurmSettings, read_partitions, read_settings
from trainmark.machine.topology import SYSTEM, read_topology
from trainmark.spec.errors import PlanError
from trainmark.spec.script_text import FOLDER, PLAIN
from trainmark.spec.site import Site
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.units import counted, parse_cores

LOCAL_DRAFT = "For a draft of this machine only: trainmark machine --draft-site --no-slurm."
SEVERAL_GROUPS = "A run uses all groups: remove those that should not take part."


class SlurmText(NamedTuple):
    """Output of scontrol."""

    settings: str
    partitions: str
    nodes: str


def ask_slurm() -> SlurmText:
    """Returns scontrol's description of the cluster; raises if Slurm is unreachable."""
    try:
        return SlurmText(
            settings=call("scontrol", "show", "config"),
            partitions=call("scontrol", "--oneliner", "show", "partition"),
            nodes=call("scontrol", "--oneliner", "show", "node"),
        )
    except SlurmUnreachableError as error:
        raise SlurmUnreachableError(
            f"slurmctld is unreachable: {last_of(error)}. Try again when `sinfo` lists the partitions. {LOCAL_DRAFT}"
        ) from None
    except SlurmRefusedError as error:
        raise SlurmRefusedError(
            f"scontrol cannot list the nodes: {last_of(error)}. Run where `sinfo` works: on a login node, with the "
            f"Slurm module loaded or SLURM_CONF set. {LOCAL_DRAFT}"
        ) from None


def draft_cluster(text: SlurmText, here: Here | None = None) -> SiteDraft:
    """Drafts the site that Slurm describes; `here` is this machine, which may be one of the nodes."""
    settings, nodes = read_settings(text.settings), read_nodes(text.nodes)
    grouped = group_identical_nodes(nodes, read_partitions(text.partitions), here)
    usable = [each for each in grouped if each.up]
    if not usable:
        raise PlanError(_no_nodes(nodes, [node for each in grouped for node in each.out]))
    mpi = settings.mpi if settings.mpi and PLAIN.fullmatch(settings.mpi) else None
    binding, why_binding = _binding(settings)
    minutes, why_minutes = _time_limit(usable)
    site = Site(
        name="".join(letter if letter.isprintable() else "?" for letter in settings.cluster),
        groups=as_node_groups(usable, _local_storage(settings)),
        slurm=SlurmSite(time_limit_minutes=minutes, binding=binding, mpi=mpi),
    )
    return SiteDraft(
        site=site,
        notes=(
            f"Drafted from Slurm {settings.version}'s description of the cluster {settings.cluster}.",
            *([SEVERAL_GROUPS] if len(usable) > 1 else []),
            *_left_out(nodes, grouped),
        ),
        group_notes=tuple(group_notes(each, settings) for each in usable),
        reasons={
            "slurm.account": "required on this cluster" if settings.needs_account else "",
            "slurm.time_limit_minutes": why_minutes,
            "slurm.binding": why_binding,
            "slurm.mpi": "MpiDefault of this cluster" if mpi else "",
            "groups.local_storage": "Slurm's TmpFS; check that it is node-local",
        },
        has_scheduler=True,
    )


def _binding(settings: SlurmSettings) -> tuple[Literal["slurm", "plan"], str]:
    """Returns who binds ranks to cores, and why."""
    plugins = ",".join(settings.task_plugins) or "none"
    if settings.binds_tasks:
        return "slurm", f"TaskPlugin is {plugins}; only the number of cores per slot matters"
    if settings.confines_jobs:
        return (
            "slurm",
            f'TaskPlugin is {plugins}; "plan" if members have several workers per node, and exclusive nodes',
        )
    return "plan", f"TaskPlugin is {plugins}: Slurm does not bind tasks, so keep other jobs off the nodes"


def _time_limit(grouped: list[IdenticalNodes]) -> tuple[int | None, str]:
    """Returns the lowest time limit of the draft's partitions, and whose it is."""
    limits = {each.partition.name: each.partition.max_minutes for each in grouped}
    shortest = min((minutes for minutes in limits.values() if minutes is not None), default=None)
    if shortest is None:
        return None, "the partitions have no limit"
    partition = next(name for name, minutes in limits.items() if minutes == shortest)
    return shortest, f"maximum of partition {partition}; shorter jobs often start earlier"


def _local_storage(settings: SlurmSettings) -> str | None:
    """Returns Slurm's TmpFS, unless it is the default /tmp."""
    folder = settings.node_storage
    # %h and %n in TmpFS stand for the node's name, which a site file cannot express.
    is_usable = folder is not None and folder != "/tmp" and "%" not in folder and FOLDER.fullmatch(folder)
    return folder if is_usable else None


def _left_out(nodes: tuple[SlurmNode, ...], grouped: list[IdenticalNodes]) -> list[str]:
    """Notes on what the draft omits: groups without an available node, and nodes in no open partition."""
    notes = [
        f"Left out, because none of them is available: nodes of partition {each.partition.name}, "
        f"{count_states(each.out)}."
        for each in grouped
        if not each.up
    ]
    placed = sum(len(each.up) + len(each.out) for each in grouped)
    if placed < len(nodes):
        notes.append(f"Left out: {counted(len(nodes) - placed, 'node')} in no partition open to you.")
    return notes


def _no_nodes(nodes: tuple[SlurmNode, ...], out: list[SlurmNode]) -> str:
    states = f" ({count_states(tuple(out))})" if out else ""
    what = f"none of {counted(len(nodes), 'node')} is available{states}" if nodes else "Slurm shows no nodes"
    return f"A site cannot be drafted: {what}. Try again when `sinfo` shows idle or allocated nodes. {LOCAL_DRAFT}"


def draft_site(*, ask_scheduler: bool = True) -> SiteDraft:
    """Drafts the cluster's site where scontrol exists, else this machine's."""
    if ask_scheduler and shutil.which("scontrol"):
        return draft_cluster(ask_slurm(), _here())
    return _draft_machine("Slurm was not queried" if not ask_scheduler else "scontrol was not found")


def _draft_machine(why: str) -> SiteDraft:
    site = local_site()
    return SiteDraft(
        site=site,
        notes=(f"Drafted from this machine only: {why}.",),
        group_notes=(("One slot per accelerator, else per NUMA domain; a single domain is split in two.",),),
    )


def _here(system: Path = SYSTEM) -> Here:
    """Returns this machine with all online cores, also inside a job confined to some of them."""
    try:
        online = set(parse_cores((system / "cpu" / "online").read_text()))
    except OSError:
        online = None
    return Here(socket.gethostname(), read_topology(system, online))
