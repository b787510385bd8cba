"""Site: the nodes, worker slots, cores and accelerators that a run may use."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from trainmark.spec.config import StrictSection
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.units import MOST_CORES, parse_cores, show_cores
from trainmark.spec.words import (
    GresName,
    InterfaceName,
    NodeFolder,
    NodeName,
    OneLine,
    PlainWord,
    Program,
    SomeText,
    program,
)

# More than any cluster has; each node is named, so that a slip of the pen would fill the memory.
MOST_NODES = 1_000_000
Core = Annotated[int, Field(ge=0, lt=MOST_CORES)]


class Slot(StrictSection):
    """The place of one worker on a node: its own cores and, where there is one, its accelerator."""

    # strict=False: TOML has lists, no tuples; what they hold stays strict
    cores: tuple[Core, ...] = Field(min_length=1, strict=False)
    accelerator: int | None = Field(None, ge=0)

    @field_validator("cores", mode="before")
    @classmethod
    def _cores_as_linux_lists_them(cls, value: object) -> object:
        return parse_cores(value) if isinstance(value, str) else value


class NodeGroup(StrictSection):
    """`count` nodes alike. `names` may name them; otherwise they are numbered after `prefix`.

    A scheduler chooses the nodes itself; then names only tell the nodes of a plan apart.
    """

    prefix: NodeName = "node"
    names: tuple[NodeName, ...] = Field((), strict=False)
    count: int = Field(1, ge=1, le=MOST_NODES)
    slots: tuple[Slot, ...] = Field(min_length=1, strict=False)
    bf16: bool = Field(True, description="whether the accelerators, if any, compute in bf16")
    shared_cores: bool = Field(
        False, description="several slots may use one core, to try on a small machine what is meant for a larger one"
    )
    partition: PlainWord | None = Field(None, description="Slurm's partition with these nodes")
    memory_gib_per_slot: float | None = Field(None, gt=0, description="memory that a worker is given")
    gres: GresName = Field("gpu", description="Slurm's name of the accelerators, e.g. gpu:a100")
    network_interface: InterfaceName | None = Field(
        None, description="interface that workers of several nodes talk over"
    )
    local_storage: NodeFolder | None = Field(
        None, description="folder of each node's own storage; may hold variables such as $TMPDIR"
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
                raise ValueError(f"a slot names a core twice: {core}; name each core once")
        if self.shared_cores:
            return self
        if core := _twice(core for slot in self.slots for core in slot.cores):
            raise ValueError(
                f"core {core} is in two slots; give each slot its own cores, or set "
                "shared_cores = true to try things out"
            )
        if accelerator := _twice(slot.accelerator for slot in self.slots if slot.accelerator is not None):
            raise ValueError(f"accelerator {accelerator} is in two slots; give each slot its own, numbered from 0")
        return self

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """The name of each node."""
        return self.names or tuple(f"{self.prefix}{number}" for number in range(1, self.count + 1))

    @cached_property
    def has_accelerators(self) -> bool:
        """Whether any slot has an accelerator."""
        return any(slot.accelerator is not None for slot in self.slots)


def _twice(numbers: Iterable[int]) -> str:
    """Those that come more than once, as Linux lists cores."""
    return show_cores(tuple(number for number, times in Counter(numbers).items() if times > 1))


class Site(StrictSection):
    """A machine or cluster, as far as planning needs to know it."""

    name: SomeText
    groups: tuple[NodeGroup, ...] = Field(min_length=1, strict=False)
    allocators: tuple[Literal["tcmalloc", "jemalloc"], ...] = Field(
        (), strict=False, description="allocators every node can load"
    )
    slurm: SlurmSite = SlurmSite()
    setup: tuple[OneLine, ...] = Field(
        (), strict=False, description="lines of shell that make trainmark's Python usable in a job"
    )
    container: tuple[SomeText, ...] = Field((), strict=False, description="command that runs a program in a container")
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
        """The group that a node belongs to."""
        return self._groups_by_node[node]

    @cached_property
    def _groups_by_node(self) -> dict[str, NodeGroup]:
        return {name: group for group in self.groups for name in group.node_names}

    @cached_property
    def num_nodes(self) -> int:
        """Nodes in all."""
        return sum(group.count for group in self.groups)

    @cached_property
    def num_slots(self) -> int:
        """Worker slots in all."""
        return sum(group.count * len(group.slots) for group in self.groups)

    @cached_property
    def num_cores(self) -> int:
        """Cores of all slots; one that several slots share is counted once."""
        return sum(group.count * len({core for slot in group.slots for core in slot.cores}) for group in self.groups)

    @cached_property
    def has_accelerators(self) -> bool:
        """Whether any slot has an accelerator."""
        return any(group.has_accelerators for group in self.groups)
