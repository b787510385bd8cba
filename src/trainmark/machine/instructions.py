"""CPU instruction sets: hardware support for short number formats, and workarounds for broken ones."""

import os
import tempfile
from pathlib import Path
from typing import Literal

ShortFormat = Literal["bf16", "fp16", "int8"]

CPUINFO = Path("/proc/cpuinfo")

# Dot-product and tile instructions by their Linux names: x86 first, then aarch64.
INSTRUCTIONS: dict[ShortFormat, frozenset[str]] = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
    "int8": frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"}),
}


# The CPUID leaf with AMX tile sizes. Some hypervisors expose AMX but hide this leaf: oneDNN then configures no tiles,
# and the first bf16 or int8 matrix product raises SIGILL.
TILE_LEAF = 0x1D
ISA_BELOW_AMX = "AVX512_CORE_FP16"


def has_fast(kind: ShortFormat) -> bool:
    """Whether this machine's CPU multiplies `kind` in hardware; False if /proc/cpuinfo is unreadable."""
    try:
        return kind in fast_formats(CPUINFO.read_text())
    except OSError:
        return False


def fast_formats(cpuinfo: str) -> set[ShortFormat]:
    """Returns the formats that the first CPU in /proc/cpuinfo multiplies in hardware."""
    for line in cpuinfo.splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            return {kind for kind, names in INSTRUCTIONS.items() if names & flags}
    return set()


def avoid_broken_amx() -> None:
    """Keeps oneDNN off AMX if it would crash; call before torch computes. An ISA limit that is set already is kept."""
    try:
        is_broken = has_broken_amx(CPUINFO.read_text())
    except OSError:
        return
    if is_broken:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ISA_BELOW_AMX)


def separate_inductor_caches() -> None:
    """Gives each instruction set its own inductor cache; call before torch is imported.

    The cache key ignores ATEN_CPU_CAPABILITY: kernels compiled for AVX-512 gave NaN with AVX2. A folder that is set
    already is kept.
    """
    if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
        folder = f"torchinductor_{os.getuid()}_{''.join(filter(str.isalnum, capability))}"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / folder))


def has_broken_amx(cpuinfo: str) -> bool:
    """Whether the first CPU in /proc/cpuinfo lists AMX without the CPUID leaf of tile sizes."""
    first = dict(line.split(":", 1) for line in cpuinfo.partition("\n\n")[0].splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in first.items()}
    level = facts.get("cpuid level", "")
    return "amx_tile" in facts.get("flags", "").split() and level.isdigit() and int(level) < TILE_LEAF
