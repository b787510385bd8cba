"""The nodes of `scontrol --oneliner show node`, with their accelerators as Slurm lists them: `gpu:a100:4(S:0-1)`."""

import re
from dataclasses import dataclass

from trainmark.machine.slurm.scontrol import list_of, number_of, read_records, text_of
from trainmark.spec.script_text import GRES, MAX_ACCELERATORS
from trainmark.spec.units import parse_cores

# One resource: fields between colons, and in parentheses the sockets that it is attached to.
RESOURCE = re.compile(r"([^,()]+)(?:\(S:([\d,-]+)\)|\([^)]*\))?(?:,|$)", re.ASCII)

# Types without bf16, which NVIDIA's tensor cores have since Ampere of 2020 (compute capability 8.0).
WITHOUT_BF16 = re.compile(
    r"(?<![a-z0-9])(k20|k40|k80|m40|m60|p4|p40|p100|v100s?|t4|gtx|titan|1080(ti)?|2080(ti)?|"
    r"kepler|maxwell|pascal|volta|turing)(?![a-z0-9])"
)


@dataclass(frozen=True)
class Accelerators:
    """Accelerators of one type on a node, and the sockets they are attached to, if known."""

    type: str | None
    number: int
    sockets: tuple[int, ...]

    @property
    def gres(self) -> str:
        """The GRES name to request; `gpu` if the type is not a plain word."""
        named = f"gpu:{self.type}"
        return named if self.type and GRES.fullmatch(named) and not self.type.isdigit() else "gpu"

    @property
    def has_bf16(self) -> bool:
        """Whether they support bf16, judged by their type."""
        return not WITHOUT_BF16.search((self.type or "").lower())


def read_accelerators(gres: str) -> tuple[Accelerators, ...]:
    """Returns the GPUs in a node's Gres, without shards, licences and other resources."""
    found = []
    for words, sockets in RESOURCE.findall(gres):
        kind, *rest = [word for word in words.split(":") if word != "no_consume"]
        number = rest.pop() if rest and rest[-1].isascii() and rest[-1].isdigit() else "1"
        if kind == "gpu" and 1 <= int(number[:9]) <= MAX_ACCELERATORS:
            found.append(Accelerators(rest[0] if rest else None, int(number), _sockets(sockets)))
    return tuple(found)


def _sockets(text: str) -> tuple[int, ...]:
    try:
        return parse_cores(text)
    except ValueError:
        return ()


# States in which a node takes no new jobs, the most specific first. Powered-down nodes are woken when needed.
OUT = {
    "DOWN": "down",
    "DRAIN": "drained",
    "DRAINED": "drained",
    "DRAINING": "drained",
    "FAIL": "failing",
    "FAILING": "failing",
    "ERROR": "failing",
    "INVAL": "misconfigured",
    "INVALID_REG": "misconfigured",
    "MAINT": "in maintenance",
    "FUTURE": "not installed yet",
    "NOT_RESPONDING": "not responding",
    "UNKNOWN": "in an unknown state",
}


@dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm describes it."""

    name: str
    host: str
    architecture: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    cpus: int
    reserved_cores: frozenset[int]  # for the system, in Slurm's numbering: socket by socket
    memory_mib: int | None  # available to jobs
    accelerators: tuple[Accelerators, ...]
    out: str | None  # why it is unavailable
    partitions: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def num_cores(self) -> int:
        """Physical cores, including reserved ones."""
        return self.sockets * self.cores_per_socket


def read_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Returns the nodes, in Slurm's order."""
    return tuple(_node(record) for record in read_records(text, "NodeName"))


def _node(record: dict[str, str]) -> SlurmNode:
    sockets, cores = number_of(record, "Sockets") or 1, number_of(record, "CoresPerSocket") or 1
    threads = number_of(record, "ThreadsPerCore") or 1
    return SlurmNode(
        name=record["NodeName"],
        host=text_of(record, "NodeHostName") or record["NodeName"],
        architecture=text_of(record, "Arch") or "",
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        cpus=number_of(record, "CPUTot") or sockets * cores * threads,
        reserved_cores=_reserved_cores(record, threads),
        memory_mib=_memory_mib(record),
        accelerators=read_accelerators(record.get("Gres", "")),
        out=_why_out(record.get("State", "")),
        partitions=list_of(record, "Partitions"),
        features=list_of(record, "ActiveFeatures") or list_of(record, "AvailableFeatures"),
    )


def _why_out(state: str) -> str | None:
    """Returns why a node in a state such as IDLE+DRAIN is unavailable; None if it is available."""
    words = {word.rstrip("*~#!%$@^-") for word in state.upper().split("+")}
    if "*" in state:  # as Slurm 20.11 marks it
        words.add("NOT_RESPONDING")
    return next((why for word, why in OUT.items() if word in words), None)


def _reserved_cores(record: dict[str, str], threads: int) -> frozenset[int]:
    """Returns the cores not available to jobs; Slurm lists hardware threads."""
    listed = text_of(record, "CPUSpecList") or ""
    if not re.fullmatch(r"[\d,-]+", listed, re.ASCII):
        return frozenset()
    try:
        return frozenset(cpu // threads for cpu in parse_cores(listed))
    except ValueError:
        return frozenset()


def _memory_mib(record: dict[str, str]) -> int | None:
    """Returns RealMemory − MemSpecLimit; None if RealMemory is 1, Slurm's default for nodes without a setting."""
    memory = number_of(record, "RealMemory") or 1
    left = memory - (number_of(record, "MemSpecLimit") or 0)
    return left if memory > 1 and left > 0 else None
