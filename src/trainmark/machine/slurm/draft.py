"""A cluster's site, drafted from what Slurm says about its nodes, partitions and settings."""

from typing import Literal, NamedTuple

from trainmark.machine.draft_text import Draft
from trainmark.machine.slurm.groups import AlikeNodes, Here, alike_nodes, as_node_groups
from trainmark.machine.slurm.nodes import SlurmNode, read_nodes
from trainmark.machine.slurm.notes import count_states, group_notes
from trainmark.machine.slurm.programs import SlurmRefusedError, SlurmUnreachableError, call, last_of
from trainmark.machine.slurm.scontrol import SlurmSettings, read_partitions, read_settings
from trainmark.spec.errors import PlanError
from trainmark.spec.script_text import FOLDER, PLAIN
from trainmark.spec.site import Site
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.units import counted

ALONE = "To describe this machine alone: trainmark machine --draft-site --no-slurm."
SEVERAL_GROUPS = "A run uses all groups: keep those whose nodes should take part, and remove the others."


class SlurmText(NamedTuple):
    """What Slurm's scontrol printed."""

    settings: str
    partitions: str
    nodes: str


def ask_slurm() -> SlurmText:
    """What scontrol says of the cluster, or an error that says what to do."""
    try:
        return SlurmText(
            settings=call("scontrol", "show", "config"),
            partitions=call("scontrol", "--oneliner", "show", "partition"),
            nodes=call("scontrol", "--oneliner", "show", "node"),
        )
    except SlurmUnreachableError as error:
        raise SlurmUnreachableError(
            f"Slurm's controller does not answer: {last_of(error)}. Try again when `sinfo` shows the partitions. "
            f"{ALONE}"
        ) from None
    except SlurmRefusedError as error:
        raise SlurmRefusedError(
            f"Slurm cannot be asked for its nodes: {last_of(error)}. Run where `sinfo` works: on a login node, with "
            f"the module of Slurm loaded or SLURM_CONF set. {ALONE}"
        ) from None


def draft_cluster(text: SlurmText, here: Here | None = None) -> Draft:
    """The site that Slurm describes; `here` is this machine, which may be one of the nodes."""
    settings, nodes = read_settings(text.settings), read_nodes(text.nodes)
    alike = alike_nodes(nodes, read_partitions(text.partitions), here)
    usable = [each for each in alike if each.up]
    if not usable:
        raise PlanError(_no_nodes(nodes, [node for each in alike for node in each.out]))
    mpi = settings.mpi if settings.mpi and PLAIN.fullmatch(settings.mpi) else None
    binding, why_binding = _binding(settings)
    minutes, why_minutes = _time_limit(usable)
    site = Site(
        name="".join(letter if letter.isprintable() else "?" for letter in settings.cluster),
        groups=as_node_groups(usable, _local_storage(settings)),
        slurm=SlurmSite(time_limit_minutes=minutes, binding=binding, mpi=mpi),
    )
    return Draft(
        site=site,
        notes=(
            f"Drafted from what Slurm {settings.version} says about the cluster {settings.cluster}.",
            *([SEVERAL_GROUPS] if len(usable) > 1 else []),
            *_left_out(nodes, alike),
        ),
        group_notes=tuple(group_notes(each, settings) for each in usable),
        reasons={
            "slurm.account": "jobs here need one" if settings.needs_account else "",
            "slurm.time_limit_minutes": why_minutes,
            "slurm.binding": why_binding,
            "slurm.mpi": "MpiDefault of this cluster" if mpi else "",
            "groups.local_storage": "Slurm's TmpFS; is it each node's own?",
        },
        has_scheduler=True,
    )


def _binding(settings: SlurmSettings) -> tuple[Literal["slurm", "plan"], str]:
    """Who binds ranks to cores, and why."""
    plugins = ",".join(settings.task_plugins) or "none"
    if settings.binds_tasks:
        return "slurm", f"TaskPlugin is {plugins}; of the cores of a slot only their number counts"
    if settings.confines_jobs:
        return (
            "slurm",
            f'TaskPlugin is {plugins}; "plan" if members have several workers on a node, and nodes of their own',
        )
    return "plan", f"TaskPlugin is {plugins}: Slurm binds nothing, so let no other jobs run on the nodes"


def _time_limit(alike: list[AlikeNodes]) -> tuple[int | None, str]:
    """The longest that every partition of the draft allows, and which one that is."""
    limits = {each.partition.name: each.partition.max_minutes for each in alike}
    shortest = min((minutes for minutes in limits.values() if minutes is not None), default=None)
    if shortest is None:
        return None, "the partitions have no limit"
    partition = next(name for name, minutes in limits.items() if minutes == shortest)
    return shortest, f"the most in partition {partition}; shorter jobs often start earlier"


def _local_storage(settings: SlurmSettings) -> str | None:
    """Slurm's folder for temporary files, where it is not the one that every Linux has."""
    folder = settings.node_storage
    # In TmpFS %h and %n stand for the node's name, which the site file cannot say.
    is_told = folder is not None and folder != "/tmp" and "%" not in folder and FOLDER.fullmatch(folder)
    return folder if is_told else None


def _left_out(nodes: tuple[SlurmNode, ...], alike: list[AlikeNodes]) -> list[str]:
    """What the draft does not show: kinds of which no node takes jobs, and nodes outside of all open partitions."""
    notes = [
        f"Left out, because none of them takes jobs now: nodes of partition {each.partition.name}, "
        f"{count_states(each.out)}."
        for each in alike
        if not each.up
    ]
    placed = sum(len(each.up) + len(each.out) for each in alike)
    if placed < len(nodes):
        notes.append(f"Left out: {counted(len(nodes) - placed, 'node')} in no partition that takes your jobs.")
    return notes


def _no_nodes(nodes: tuple[SlurmNode, ...], out: list[SlurmNode]) -> str:
    states = f" ({count_states(tuple(out))})" if out else ""
    what = f"none of {counted(len(nodes), 'node')} takes jobs now{states}" if nodes else "no node is shown to you"
    return f"A site cannot be drafted: {what}. Try again when `sinfo` shows nodes that are idle or in use. {ALONE}"
