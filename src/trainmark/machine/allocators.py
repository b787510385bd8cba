"""Memory allocators that can be preloaded instead of glibc's, found in the dynamic linker's cache."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

from trainmark.spec.errors import PlanError

Loadable = Literal["tcmalloc", "jemalloc"]

# Library names in order of preference, and the Debian package that has them.
LIBRARIES: dict[Loadable, tuple[tuple[str, ...], str]] = {
    "tcmalloc": (("libtcmalloc.so", "libtcmalloc_minimal.so"), "libtcmalloc-minimal4"),
    "jemalloc": (("libjemalloc.so",), "libjemalloc2"),
}


def installed_allocators() -> tuple[Loadable, ...]:
    """Returns the allocators installed on this machine."""
    known = _linker_cache()
    return tuple(name for name, (prefixes, _) in LIBRARIES.items() if library_path(known, prefixes))


def loaded_allocator(maps: Path = Path("/proc/self/maps")) -> str:
    """Returns the allocator in this process's memory map: a failed preload only prints a line on stderr."""
    text = maps.read_text()
    return next((name for name in LIBRARIES if f"lib{name}" in text), "glibc")


def find_allocator(name: Loadable) -> str:
    """Returns the path of the allocator's shared library; raises if it is not installed."""
    prefixes, package = LIBRARIES[name]
    found = library_path(_linker_cache(), prefixes)
    if found is None:
        raise PlanError(
            f"launch.allocator={name} needs {' or '.join(prefixes)}, which is not installed here. "
            f"Install it (Debian: {package}), or choose --set launch.allocator=glibc-tuned."
        )
    return found


@cache
def library_path(known: str, prefixes: tuple[str, ...]) -> str | None:
    """Returns the path of the first library in the output of `ldconfig -p` whose name has one of the prefixes."""
    for prefix in prefixes:
        for line in known.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and name.startswith(prefix):
                return path
    return None


@cache  # called for every rank of an ensemble
def _linker_cache() -> str:
    for program in ("ldconfig", "/sbin/ldconfig"):  # users' PATH often lacks /sbin
        try:
            return subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            continue
    return ""
