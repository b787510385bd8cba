"""Memory allocators that can be loaded in place of glibc's, found as the dynamic linker would find them."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

from trainmark.spec.errors import PlanError

Loadable = Literal["tcmalloc", "jemalloc"]

# Any of these serves; Debian's packages are named in the error.
LIBRARIES: dict[Loadable, tuple[tuple[str, ...], str]] = {
    "tcmalloc": (("libtcmalloc.so", "libtcmalloc_minimal.so"), "libtcmalloc-minimal4"),
    "jemalloc": (("libjemalloc.so",), "libjemalloc2"),
}


def installed_allocators() -> tuple[Loadable, ...]:
    """Those that ranks on this machine could load."""
    known = _linker_cache()
    return tuple(name for name, (prefixes, _) in LIBRARIES.items() if library_path(known, prefixes))


def loaded_allocator(maps: Path = Path("/proc/self/maps")) -> str:
    """The allocator that this process really runs with: a preload that fails is only a line on standard error."""
    text = maps.read_text()
    return next((name for name in LIBRARIES if f"lib{name}" in text), "glibc")


def find_allocator(name: Loadable) -> str:
    """The path of the allocator's shared library on this machine."""
    prefixes, package = LIBRARIES[name]
    found = library_path(_linker_cache(), prefixes)
    if found is None:
        raise PlanError(
            f"launch.allocator={name} needs {' or '.join(prefixes)}, which the dynamic linker does not know here. "
            f"Install it (Debian: {package}), or choose --set launch.allocator=glibc-tuned."
        )
    return found


@cache
def library_path(known: str, prefixes: tuple[str, ...]) -> str | None:
    """The path of the first library in `ldconfig -p`'s list whose name begins so."""
    for prefix in prefixes:
        for line in known.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and name.startswith(prefix):
                return path
    return None


@cache  # it is the same for every rank of a large ensemble
def _linker_cache() -> str:
    for program in ("ldconfig", "/sbin/ldconfig"):  # users' PATH often lacks /sbin
        try:
            return subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            continue
    return ""
