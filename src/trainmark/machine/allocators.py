"""Memory allocators that can be preloaded instead of glibc's, found in the dynamic linker's cache."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from trainmark.spec.errors import PlanError

Loadable = Literal["tcmalloc", "jemalloc"]


class Library(NamedTuple):
    """File names in order of preference, the name that every installation has, and its Debian package."""

    prefixes: tuple[str, ...]
    soname: str
    package: str


LIBRARIES: dict[Loadable, Library] = {
    "tcmalloc": Library(
        ("libtcmalloc.so", "libtcmalloc_minimal.so"), "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"
    ),
    "jemalloc": Library(("libjemalloc.so",), "libjemalloc.so.2", "libjemalloc2"),
}


def installed_allocators() -> tuple[Loadable, ...]:
    """Returns the allocators installed on this machine."""
    known = _linker_cache()
    return tuple(name for name, library in LIBRARIES.items() if library_path(known, library.prefixes))


def loaded_allocator(maps: Path = Path("/proc/self/maps")) -> str:
    """Returns the allocator in this process's memory map: a failed preload only prints a line on stderr."""
    text = maps.read_text()
    return next((name for name in LIBRARIES if f"lib{name}" in text), "glibc")


def find_allocator(name: Loadable, *, on_other_nodes: bool = False) -> str:
    """Returns the path of the allocator's shared library; raises if it is not installed.

    For other nodes, which may have what a login node lacks, its name: their dynamic linker finds it.
    """
    library = LIBRARIES[name]
    found = library_path(_linker_cache(), library.prefixes)
    if found is None and on_other_nodes:
        return library.soname
    if found is None:
        raise PlanError(
            f"launch.allocator={name} needs {' or '.join(library.prefixes)}, which is not installed here. "
            f"Install it (Debian: {library.package}), or choose --set launch.allocator=glibc-tuned."
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
