"""The accelerators of a node as Slurm lists them: `gpu:a100:4(S:0-1)`."""

import re
from dataclasses import dataclass

from trainmark.spec.units import parse_cores
from trainmark.spec.words import GRES, MOST_ACCELERATORS

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
        if kind == "gpu" and 1 <= int(number[:9]) <= MOST_ACCELERATORS:
            found.append(Accelerators(rest[0] if rest else None, int(number), _sockets(sockets)))
    return tuple(found)


def _sockets(text: str) -> tuple[int, ...]:
    try:
        return parse_cores(text)
    except ValueError:
        return ()
