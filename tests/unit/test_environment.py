"""The environment that ranks get: allocator, thread binding, device."""

from pathlib import Path
from typing import Any

import pytest

from trainmark.launch.commands import rank_environment
from trainmark.machine.allocators import find_allocator, library_path, loaded_allocator
from trainmark.spec.config import LaunchConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Rank

CACHE = """3 libs found in cache `/etc/ld.so.cache'
\tlibtcmalloc_minimal_debug.so.4 (libc6,x86-64) => /lib/libtcmalloc_minimal_debug.so.4
\tlibtcmalloc_minimal.so.4 (libc6,x86-64) => /lib/libtcmalloc_minimal.so.4
\tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1
"""


def environment(**launch: Any) -> dict[str, str]:
    return rank_environment(LaunchConfig(**{"allocator": "glibc-tuned", **launch}), Rank(0, "node1", 0, (0, 1), None))


def test_threads_are_one_per_core_and_freed_memory_is_kept() -> None:
    given = environment()
    assert given["OMP_NUM_THREADS"] == "2"
    assert given["MALLOC_TRIM_THRESHOLD_"] == "-1"
    assert "LD_PRELOAD" not in given and "OMP_PROC_BIND" not in given


def test_the_systems_allocator_is_left_as_it_is() -> None:
    assert not any(name.startswith(("MALLOC", "GLIBC", "LD_")) for name in environment(allocator="system"))


@pytest.mark.parametrize("binding", ["close", "spread"])
def test_threads_are_bound_to_cores_when_asked(binding: str) -> None:
    given = environment(thread_binding=binding)
    assert (given["OMP_PROC_BIND"], given["OMP_PLACES"]) == (binding, "cores")


def test_an_accelerator_is_the_only_one_that_its_rank_sees() -> None:
    given = rank_environment(LaunchConfig(allocator="glibc-tuned"), Rank(0, "node1", 0, (0,), 3))
    assert given["CUDA_VISIBLE_DEVICES"] == "3"


def test_a_library_is_found_by_the_begin_of_its_name_and_debug_versions_are_not_taken() -> None:
    wanted = ("libtcmalloc.so", "libtcmalloc_minimal.so")
    assert library_path(CACHE, wanted) == "/lib/libtcmalloc_minimal.so.4"
    assert library_path(CACHE, ("libjemalloc.so",)) is None


def test_an_allocator_that_is_not_installed_is_refused_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainmark.machine.allocators._linker_cache", lambda: CACHE)
    assert environment(allocator="tcmalloc")["LD_PRELOAD"] == "/lib/libtcmalloc_minimal.so.4"
    with pytest.raises(PlanError, match=r"Debian: libjemalloc2.*launch\.allocator=glibc-tuned"):
        find_allocator("jemalloc")


def test_a_job_preloads_by_name_what_its_nodes_have_and_the_login_node_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.machine.allocators._linker_cache", lambda: "")
    for name, library in (("tcmalloc", "libtcmalloc_minimal.so.4"), ("jemalloc", "libjemalloc.so.2")):
        assert environment(allocator=name, launcher="slurm")["LD_PRELOAD"] == library
        with pytest.raises(PlanError, match="not installed here"):
            environment(allocator=name, launcher="local")


def test_the_loaded_allocator_is_read_from_the_process_itself(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 0 08:01 1 /lib/libtcmalloc_minimal.so.4.5.9\n7f02 r-xp /lib/libc.so.6\n")
    assert loaded_allocator(maps) == "tcmalloc"
    maps.write_text("7f02 r-xp /lib/libc.so.6\n")
    assert loaded_allocator(maps) == "glibc"
