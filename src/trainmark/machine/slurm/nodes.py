"""The nodes of `scontrol --oneliner show node`, with their accelerators as Slurm lists them: `gpu:a100:4(S:0-1)`."""

import re
from dataclasses import dataclass

from trainmark.machine.slurm.scontrol import list_of, number_of, read_records, text_of
from trainmark.spec.script_text import GRES, MAX_ACCELERATORS
from trainmark.spec.units import parse_cores

# One resource: words between colons, and in brackets the sockets that it is attached to.
RESOURCE = re.compile(r"([^,()]+)(?:\(S:([\d,-]+)\)|\([^)]*\))?(?:,|$)", re.ASCII)

# Types without bf16, which NVIDIA's tensor cores have since Ampere of 2020 (compute capability 8.0).
WITHOUT_BF16 = re.compile(
    r"(?<![a-z0-9])(k20|k40|k80|m40|m60|p4|p40|p100|v100s?|t4|gtx|titan|1080(ti)?|2080(ti)?|"
    r"kepler|maxwell|pascal|volta|turing)(?![a-z0-9])"
)


@dataclass(frozen=True)
class Accelerators:
    """Accelerators of one kind on a node; `sockets` are those that they are attached to, if Slurm knows."""

    type: str | None
    number: int
    sockets: tuple[int, ...]

    @property
    def gres(self) -> str:
        """The name by which Slurm is asked for them; the plain one where the type is no plain word."""
        named = f"gpu:{self.type}"
        return named if self.type and GRES.fullmatch(named) and not self.type.isdigit() else "gpu"

    @property
    def has_bf16(self) -> bool:
        """Whether they compute in bf16, as far as their type says."""
        return not WITHOUT_BF16.search((self.type or "").lower())


def read_accelerators(gres: str) -> tuple[Accelerators, ...]:
    """The GPUs in a node's Gres; other resources, such as shards and licences, are no place for a worker."""
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


# States in which a node takes no new jobs, the telling ones first. Nodes that save power are woken when needed.
OUT = {
    "DOWN": "down",
    "DRAIN": "drained",
    "DRAINED": "drained",
    "DRAINING": "drained",
    "FAIL": "failing",
    "FAILING": "failing",
    "ERROR": "failing",
    "INVAL": "wrongly configured",
    "INVALID_REG": "wrongly configured",
    "MAINT": "in maintenance",
    "FUTURE": "not there yet",
    "NOT_RESPONDING": "not responding",
    "UNKNOWN": "not known to be up",
}


@dataclass(frozen=True)
class SlurmNode:
    """What Slurm knows of a node."""

    name: str
    host: str
    architecture: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    cpus: int
    reserved_cores: frozenset[int]  # by Slurm for the system, in its own numbering: socket after socket
    memory_mib: int | None  # what jobs may have
    accelerators: tuple[Accelerators, ...]
    out: str | None  # why it takes no jobs now
    partitions: tuple[str, ...]
    features: tuple[str, ...]

    @property
    def num_cores(self) -> int:
        """Physical cores, reserved ones with them."""
        return self.sockets * self.cores_per_socket


def read_nodes(text: str) -> tuple[SlurmNode, ...]:
    """The nodes, in Slurm's order."""
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
    """Why a node in a state such as IDLE+DRAIN takes no jobs; None if it does."""
    words = {word.rstrip("*~#!%$@^-") for word in state.upper().split("+")}
    if "*" in state:  # Slurm 20.11's way to say it
        words.add("NOT_RESPONDING")
    return next((why for word, why in OUT.items() if word in words), None)


def _reserved_cores(record: dict[str, str], threads: int) -> frozenset[int]:
    """Cores that jobs do not get; Slurm lists the hardware threads."""
    listed = text_of(record, "CPUSpecList") or ""
    if not re.fullmatch(r"[\d,-]+", listed, re.ASCII):
        return frozenset()
    try:
        return frozenset(cpu // threads for cpu in parse_cores(listed))
    except ValueError:
        return frozenset()


def _memory_mib(record: dict[str, str]) -> int | None:
    """RealMemory without what the system keeps; 1 is what Slurm says of a node whose memory is not configured."""
    memory = number_of(record, "RealMemory") or 1
    left = memory - (number_of(record, "MemSpecLimit") or 0)
    return left if memory > 1 and left > 0 else None
