"""Site: the nodes, worker slots, cores and accelerators that a run may use."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from trainmark.spec.config import StrictSection
from trainmark.spec.script_text import (
    GresName,
    InterfaceName,
    NodeFolder,
    NodeName,
    NonEmptyLine,
    OneLine,
    Program,
    SlurmName,
    program,
)
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.units import MAX_CORES, parse_cores, show_cores

# More than any cluster has; each node gets a name, so a typo would exhaust memory.
MAX_NODES = 1_000_000
Core = Annotated[int, Field(ge=0, lt=MAX_CORES)]


class Slot(StrictSection):
    """Resources of one worker on a node: its cores and, if any, its accelerator."""

    # strict=False: TOML has lists, no tuples; their items stay strict
    cores: tuple[Core, ...] = Field(min_length=1, strict=False)
    accelerator: int | None = Field(None, ge=0)

    @field_validator("cores", mode="before")
    @classmethod
    def _cores_as_linux_lists_them(cls, value: object) -> object:
        return parse_cores(value) if isinstance(value, str) else value


class NodeGroup(StrictSection):
    """`count` identical nodes, named by `names` or numbered after `prefix`.

    A scheduler selects the nodes itself; names then only distinguish the nodes of a plan.
    """

    prefix: NodeName = "node"
    names: tuple[NodeName, ...] = Field((), strict=False)
    count: int = Field(1, ge=1, le=MAX_NODES)
    slots: tuple[Slot, ...] = Field(min_length=1, strict=False)
    bf16: bool = Field(True, description="whether the accelerators, if any, compute in bf16")
    shared_cores: bool = Field(
        False, description="allow slots to share cores, to test a larger setup on a small machine (oversubscribed)"
    )
    partition: SlurmName | None = Field(None, description="Slurm partition of these nodes")
    memory_gib_per_slot: float | None = Field(None, gt=0, description="memory per worker")
    gres: GresName = Field("gpu", description="Slurm's name of the accelerators, e.g. gpu:a100")
    network_interface: InterfaceName | None = Field(None, description="interface for communication between nodes")
    local_storage: NodeFolder | None = Field(
        None, description="folder on node-local storage; may contain variables such as $TMPDIR"
    )

    @model_validator(mode="before")
    @classmethod
    def _names_are_counted(cls, values: Any) -> Any:
        if isinstance(values, dict) and "count" not in values and isinstance(values.get("names"), list | tuple):
            return {**values, "count": len(values["names"]) or 1}
        return values

    @model_validator(mode="after")
    def _names_match_count(self) -> "NodeGroup":
        if self.names and len(self.names) != self.count:
            raise ValueError(f"{len(self.names)} names for {self.count} nodes; give one name per node or none")
        return self

    @model_validator(mode="after")
    def _slots_are_disjoint(self) -> "NodeGroup":
        for slot in self.slots:
            if core := _twice(slot.cores):
                raise ValueError(f"a slot lists a core twice: {core}; list each core once")
        if self.shared_cores:
            return self
        if core := _twice(core for slot in self.slots for core in slot.cores):
            raise ValueError(
                f"core {core} is in two slots; give each slot its own cores, or set shared_cores = true for tests"
            )
        if accelerator := _twice(slot.accelerator for slot in self.slots if slot.accelerator is not None):
            raise ValueError(f"accelerator {accelerator} is in two slots; give each slot its own, numbered from 0")
        return self

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return self.names or tuple(f"{self.prefix}{number}" for number in range(1, self.count + 1))

    @cached_property
    def has_accelerators(self) -> bool:
        """Whether any slot has an accelerator."""
        return any(slot.accelerator is not None for slot in self.slots)


def _twice(numbers: Iterable[int]) -> str:
    """Returns the duplicates, formatted like a Linux CPU list."""
    return show_cores(tuple(number for number, times in Counter(numbers).items() if times > 1))


class Site(StrictSection):
    """A machine or cluster as seen by planning."""

    name: NonEmptyLine
    groups: tuple[NodeGroup, ...] = Field(min_length=1, strict=False)
    allocators: tuple[Literal["tcmalloc", "jemalloc"], ...] = Field(
        (), strict=False, description="allocators every node can load"
    )
    slurm: SlurmSite = SlurmSite()
    setup: tuple[OneLine, ...] = Field(
        (), strict=False, description="shell lines at the start of each job that set up trainmark's Python"
    )
    container: tuple[NonEmptyLine, ...] = Field(
        (), strict=False, description="command that runs a program in a container"
    )
    python: Program | None = Field(None, description="Python on the compute nodes; default: the one that submits")

    @field_validator("container")
    @classmethod
    def _container_begins_with_a_program(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if words:
            program(words[0])
        return words

    @model_validator(mode="after")
    def _node_names_differ(self) -> "Site":
        names = Counter(name for group in self.groups for name in group.node_names)
        twice = next((name for name, times in names.items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"two nodes are called '{twice}'; give each group its own prefix, or names")
        return self

    def group_of(self, node: str) -> NodeGroup:
        """Returns the group of a node."""
        return self._groups_by_node[node]

    @cached_property
    def _groups_by_node(self) -> dict[str, NodeGroup]:
        return {name: group for group in self.groups for name in group.node_names}

    @cached_property
    def num_nodes(self) -> int:
        """Total number of nodes."""
        return sum(group.count for group in self.groups)

    @cached_property
    def num_slots(self) -> int:
        """Total number of worker slots."""
        return sum(group.count * len(group.slots) for group in self.groups)

    @cached_property
    def num_cores(self) -> int:
        """Total number of cores; shared cores count once."""
        return sum(group.count * len({core for slot in group.slots for core in slot.cores}) for group in self.groups)

    @cached_property
    def has_accelerators(self) -> bool:
        """Whether any slot has an accelerator."""
        return any(group.has_accelerators for group in self.groups)
