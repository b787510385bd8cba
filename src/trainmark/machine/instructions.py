"""Which short number formats a CPU computes in hardware, and which instructions libraries must keep away from."""

import os
import tempfile
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


# The CPUID leaf that states the sizes of AMX tiles. Some hypervisors pass AMX on but hide this leaf: oneDNN then
# configures no tiles, and the first product of bf16 or int8 matrices ends in SIGILL.
TILE_LEAF = 0x1D
ISA_BELOW_AMX = "AVX512_CORE_FP16"


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


def keep_off_broken_amx() -> None:
    """oneDNN uses no AMX in this process if it would crash; to be called before torch computes. A set limit stays."""
    try:
        is_broken = has_broken_amx(CPUINFO.read_text())
    except OSError:
        return
    if is_broken:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ISA_BELOW_AMX)


def keep_compiled_code_apart() -> None:
    """Code that inductor compiled for one instruction set is not loaded for another; to be called before torch loads.

    Its cache does not heed ATEN_CPU_CAPABILITY: kernels compiled with AVX-512 gave NaN with AVX2. A set folder stays.
    """
    if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
        folder = f"torchinductor_{os.getuid()}_{''.join(filter(str.isalnum, capability))}"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / folder))


def has_broken_amx(cpuinfo: str) -> bool:
    """Whether the first CPU of a /proc/cpuinfo lists AMX, but its highest CPUID leaf is below that of tile sizes."""
    first = dict(line.split(":", 1) for line in cpuinfo.partition("\n\n")[0].splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in first.items()}
    level = facts.get("cpuid level", "")
    return "amx_tile" in facts.get("flags", "").split() and level.isdigit() and int(level) < TILE_LEAF
