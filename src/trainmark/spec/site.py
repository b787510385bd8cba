"""Site: the nodes, worker slots, cores and accelerators that a run may use."""

from functools import cached_property
from typing import Literal

from pydantic import Field, field_validator, model_validator

from trainmark.spec.config import Section
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.units import parse_cores, show_cores
from trainmark.spec.words import OneLine, PlainWord


class Slot(Section):
    """The place of one worker on a node: its own cores and, where there is one, its accelerator."""

    cores: tuple[int, ...] = Field(min_length=1)
    accelerator: int | None = Field(None, ge=0)

    @field_validator("cores", mode="before")
    @classmethod
    def _cores_as_linux_lists_them(cls, value: object) -> object:
        return parse_cores(value) if isinstance(value, str) else value


class NodeGroup(Section):
    """`count` nodes alike. `names` may name them; otherwise they are numbered after `prefix`.

    A scheduler chooses the nodes itself; then names only tell the nodes of a plan apart.
    """

    prefix: OneLine = "node"
    names: tuple[OneLine, ...] = ()
    count: int = Field(1, ge=1)
    slots: tuple[Slot, ...] = Field(min_length=1)
    bf16: bool = Field(True, description="whether the accelerators, if any, compute in bf16")
    shared_cores: bool = Field(
        False, description="several slots may use one core, to try on a small machine what is meant for a larger one"
    )
    partition: PlainWord | None = Field(None, description="Slurm's partition with these nodes")
    memory_gib_per_slot: float | None = Field(None, gt=0, description="memory that a worker is given")
    gres: PlainWord = Field("gpu", description="Slurm's name of the accelerators, e.g. gpu:a100")
    network_interface: PlainWord | None = Field(None, description="interface that workers of several nodes talk over")
    local_storage: OneLine | None = Field(
        None, description="folder of each node's own storage; may hold variables such as $TMPDIR"
    )

    @model_validator(mode="after")
    def _names_match_count_and_cores_are_disjoint(self) -> "NodeGroup":
        if self.names and len(self.names) != self.count:
            raise ValueError(f"{len(self.names)} names for {self.count} nodes; give one name per node or none")
        seen: set[int] = set()
        for slot in self.slots:
            if len(set(slot.cores)) < len(slot.cores):
                raise ValueError(f"a slot names a core twice: {slot.cores}")
            shared = seen & set(slot.cores)
            if shared and not self.shared_cores:
                raise ValueError(
                    f"core {show_cores(tuple(shared))} is in two slots; give each slot its own cores, or set "
                    "shared_cores = true to try things out"
                )
            seen |= set(slot.cores)
        return self

    def node_names(self) -> tuple[str, ...]:
        """The name of each node."""
        return self.names or tuple(f"{self.prefix}{number}" for number in range(1, self.count + 1))


class Site(Section):
    """A machine or cluster, as far as planning needs to know it."""

    name: OneLine
    groups: tuple[NodeGroup, ...] = Field(min_length=1)
    allocators: tuple[Literal["tcmalloc", "jemalloc"], ...] = Field((), description="allocators every node can load")
    slurm: SlurmSite = SlurmSite()
    setup: tuple[OneLine, ...] = Field((), description="lines of shell that make trainmark's Python usable in a job")
    container: tuple[OneLine, ...] = Field((), description="command that runs a program in a container")
    python: OneLine | None = Field(None, description="Python on the compute nodes; default: the one that submits")

    @model_validator(mode="after")
    def _node_names_differ(self) -> "Site":
        names = [name for group in self.groups for name in group.node_names()]
        if len(names) != len(set(names)):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two nodes are called '{twice}'; give each group its own prefix, or names")
        return self

    def group_of(self, node: str) -> NodeGroup:
        """The group that a node belongs to."""
        return next(group for group in self.groups if node in group.node_names())

    @cached_property
    def num_nodes(self) -> int:
        """Nodes in all."""
        return sum(group.count for group in self.groups)

    @cached_property
    def num_slots(self) -> int:
        """Worker slots in all."""
        return sum(group.count * len(group.slots) for group in self.groups)

    @cached_property
    def has_accelerators(self) -> bool:
        """Whether any slot has an accelerator."""
        return any(slot.accelerator is not None for group in self.groups for slot in group.slots)
