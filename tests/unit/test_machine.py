"""Topology from sysfs, slots from topology, affinity checked in the process itself, space kept back."""

import errno
import os
from pathlib import Path

import pytest

from trainmark.machine.accelerators import Accelerator, visible_indices
from trainmark.machine.local_site import make_slots, split_evenly
from trainmark.machine.processes import is_alive, this_process
from trainmark.machine.software import recorded_environment
from trainmark.machine.storage import check_space, is_disk_full, keep_reserve, write_from_reserve
from trainmark.machine.topology import Topology, check_affinity, pin_to, read_topology
from trainmark.spec.errors import ConfigError, PlanError, StorageError


def sysfs(root: Path, nodes: dict[int, str], siblings: dict[int, str]) -> Path:
    for node, cpus in nodes.items():
        (root / "node" / f"node{node}").mkdir(parents=True)
        (root / "node" / f"node{node}" / "cpulist").write_text(cpus + "\n")
    for cpu, threads in siblings.items():
        (root / "cpu" / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (root / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(threads + "\n")
    return root


def topology(*domains: tuple[int, ...]) -> Topology:
    return Topology(domains, sum(len(domain) for domain in domains), "cpu", 2**30)


def test_hardware_threads_of_one_core_count_once(tmp_path: Path) -> None:
    # Two sockets of two cores; CPU i and i + 4 share a core.
    root = sysfs(tmp_path, {0: "0-1,4-5", 1: "2-3,6-7"}, {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
    assert read_topology(root, allowed=set(range(8))).numa_domains == ((0, 1), (2, 3))


def test_only_allowed_cpus_are_used(tmp_path: Path) -> None:
    root = sysfs(tmp_path, {0: "0-1,4-5", 1: "2-3,6-7"}, {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
    # A scheduler gave us one thread of core 1 and both of core 3; node 10 sorts after node 2.
    assert read_topology(root, allowed={5, 3, 7}).numa_domains == ((5,), (3,))


def test_a_machine_without_numa_is_one_domain(tmp_path: Path) -> None:
    assert read_topology(tmp_path, allowed={0, 1}).numa_domains == ((0, 1),)


def test_a_slot_is_a_numa_domain() -> None:
    assert [slot.cores for slot in make_slots(topology((0, 1, 2, 3), (4, 5, 6, 7)), ())] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_one_domain_of_several_cores_makes_two_slots() -> None:
    assert [slot.cores for slot in make_slots(topology((0, 1)), ())] == [(0,), (1,)]
    assert [slot.cores for slot in make_slots(topology((0, 1, 2, 3)), ())] == [(0, 1), (2, 3)]


def test_one_core_makes_one_slot() -> None:
    assert [slot.cores for slot in make_slots(topology((0,)), ())] == [(0,)]


def test_each_accelerator_is_a_slot_with_its_share_of_cores() -> None:
    slots = make_slots(topology((0, 1, 2, 3)), (Accelerator(0, "gpu", 1), Accelerator(1, "gpu", 1)))
    assert [(slot.accelerator, slot.cores) for slot in slots] == [(0, (0, 1)), (1, (2, 3))]


def test_fewer_cores_than_accelerators_are_refused_with_advice() -> None:
    with pytest.raises(PlanError, match=r"2 accelerators need a core each, but this process may use 1"):
        make_slots(topology((0,)), (Accelerator(0, "gpu", 1), Accelerator(1, "gpu", 1)))


def test_visible_accelerators_keep_their_numbers_on_the_node() -> None:
    names = {0: "GPU-aa", 1: "GPU-bb", 2: "GPU-bc", 3: "GPU-dd"}
    assert visible_indices(names, None) == [0, 1, 2, 3]
    assert visible_indices(names, "2,3") == [2, 3]
    assert visible_indices(names, "GPU-dd, 0") == [3, 0]
    assert visible_indices(names, "1,9,2") == [1]
    assert visible_indices(names, "") == []


def test_a_remainder_of_cores_stays_idle() -> None:
    assert split_evenly((0, 1, 2, 3, 4), 2) == [(0, 1), (2, 3)]


def test_affinity_is_verified_from_within() -> None:
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    assert check_affinity(allowed, 1, 1).verified
    assert not check_affinity(allowed, 1, 2).verified
    assert not check_affinity((*allowed, 4000), 1, 1).verified


def test_inter_op_threads_are_verified_if_a_number_was_asked_for() -> None:
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    assert check_affinity(allowed, 1, 1, None, 8).verified
    assert check_affinity(allowed, 1, 1, 2, 2).verified
    assert not check_affinity(allowed, 1, 1, 2, 8).verified
    assert not check_affinity(allowed, 1, 1, 2, None).verified


def test_cores_that_do_not_exist_are_refused() -> None:
    with pytest.raises(PlanError, match=r"Cannot run on cores 4000: this process may use"):
        pin_to((4000,))


def test_a_process_is_known_by_more_than_its_number() -> None:
    me = this_process()
    assert is_alive(me)
    assert is_alive({**me, "created_s": me["created_s"] - 1000})  # the clock was set; ticks since boot do not move
    assert not is_alive({**me, "start_ticks": me["start_ticks"] - 1})
    assert not is_alive({**me, "boot_id": "of another boot"})
    earlier = {name: value for name, value in me.items() if name not in ("start_ticks", "boot_id")}
    assert is_alive(earlier)
    assert not is_alive({**earlier, "created_s": me["created_s"] - 1000})
    assert not is_alive({**me, "pid": 2**22 - 3})


def test_secrets_of_the_environment_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert recorded_environment()["OMP_NUM_THREADS"] == "3"
    assert "secret" not in str(recorded_environment())


def test_a_folder_without_storage_behind_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"/proc/runs cannot hold files"):
        check_space(Path("/proc/runs"), needed_bytes=1)


def test_too_little_space_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"free, but this run writes about .*--runs-dir"):
        check_space(tmp_path / "not" / "there", needed_bytes=2**60)
    assert list(tmp_path.iterdir()) == []


def test_the_reserve_is_given_up_when_the_disk_is_full(tmp_path: Path) -> None:
    reserve = tmp_path / "reserve"
    keep_reserve(reserve)
    tries = []

    def write() -> None:
        tries.append(reserve.exists())
        if reserve.exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    write_from_reserve(reserve, write)
    assert tries == [True, False]


def test_a_full_disk_is_recognised_behind_other_errors() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "full")
        except OSError as error:
            raise RuntimeError("could not save") from error
    except RuntimeError as error:
        assert is_disk_full(error)
    assert not is_disk_full(OSError(errno.EACCES, "no"))
