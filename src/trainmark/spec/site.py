"""Site: the nodes, worker slots, cores and accelerators that a run may use."""

from functools import cached_property
from typing import Literal

from pydantic import Field, field_validator, model_validator

from trainmark.spec.config import Section
from trainmark.spec.units import parse_cores, show_cores


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

    `bf16` says whether their accelerators, if any, compute in bf16. `shared_cores` lets several slots use one core, to
    try out on a small machine what is meant for a larger one.
    """

    prefix: str = "node"
    names: tuple[str, ...] = ()
    count: int = Field(1, ge=1)
    slots: tuple[Slot, ...] = Field(min_length=1)
    bf16: bool = True
    shared_cores: bool = False

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

    name: str
    groups: tuple[NodeGroup, ...] = Field(min_length=1)
    allocators: tuple[Literal["tcmalloc", "jemalloc"], ...] = ()  # that every node can load

    @model_validator(mode="after")
    def _node_names_differ(self) -> "Site":
        names = [name for group in self.groups for name in group.node_names()]
        if len(names) != len(set(names)):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two nodes are called '{twice}'; give each group its own prefix, or names")
        return self

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
