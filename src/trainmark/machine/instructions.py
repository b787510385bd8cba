"""Which short number formats a CPU computes in hardware, from the flags that the kernel lists."""

from pathlib import Path
from typing import Literal

ShortFormat = Literal["bf16", "fp16", "int8"]

CPUINFO = Path("/proc/cpuinfo")

# Products of vectors or tiles, as Linux names the extensions: x86 first, then aarch64.
INSTRUCTIONS: dict[ShortFormat, frozenset[str]] = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
    "int8": frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"}),
}


def has_fast(kind: ShortFormat) -> bool:
    """Whether this machine's CPU multiplies `kind` in hardware; no, where the kernel does not say."""
    try:
        return kind in fast_formats(CPUINFO.read_text())
    except OSError:
        return False


def fast_formats(cpuinfo: str) -> set[ShortFormat]:
    """The formats that the first CPU of a /proc/cpuinfo multiplies in hardware."""
    for line in cpuinfo.splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            return {kind for kind, names in INSTRUCTIONS.items() if names & flags}
    return set()
