"""Nodes, partitions and slots are read from lines of scontrol, with the oddities that real clusters have."""

import pytest

from tests.unit.written_clusters import PARTITION, node, small
from trainmark.machine.draft import draft_cluster
from trainmark.machine.slurm.nodes import Accelerators, read_accelerators, read_nodes
from trainmark.machine.slurm.scontrol import fold_names, minutes_of, read_partitions, read_settings
from trainmark.machine.slurm.slots import node_slots
from trainmark.machine.topology import Topology
from trainmark.spec.errors import PlanError
from trainmark.spec.units import show_cores


@pytest.mark.parametrize(
    ("state", "why"),
    [
        *((state, None) for state in ("IDLE", "ALLOCATED", "MIXED", "MIXED+PLANNED", "ALLOCATED+COMPLETING")),
        *((state, None) for state in ("IDLE+CLOUD+POWERED_DOWN", "IDLE+POWER", "IDLE~", "IDLE#", "IDLE+RESERVED")),
        *((state, "down") for state in ("DOWN", "DOWN*", "DOWN+NOT_RESPONDING", "DOWN*+DRAIN", "DOWN+CLOUD")),
        *((state, "drained") for state in ("IDLE+DRAIN", "MIXED+DRAIN", "DRAINED", "DRAINING", "DRAINED*")),
        *((state, "not responding") for state in ("IDLE*", "IDLE+NOT_RESPONDING", "ALLOCATED*")),
        ("IDLE+MAINT", "in maintenance"),
        ("UNKNOWN", "in an unknown state"),
        ("FUTURE", "not installed yet"),
        ("IDLE+FAIL", "failing"),
    ],
)
def test_states_of_all_versions_are_understood(state: str, why: str | None) -> None:
    assert read_nodes(node(State=state))[0].out == why


def test_what_people_write_into_a_reason_does_not_change_a_node() -> None:
    line = node(State="IDLE+DRAIN") + " Reason=see State=IDLE Sockets=8 Gres=gpu:9 [root@2024-01-01] Comment=Sockets=9"
    (drained,) = read_nodes(line)
    assert (drained.out, drained.sockets, drained.accelerators) == ("drained", 2, ())


def test_values_with_spaces_end_at_the_next_key() -> None:
    line = "NodeName=n1 OS=Linux 6.1 #1 SMP Fri = odd  RealMemory=2048 Sockets=1 State=IDLE CoresPerSocket=2"
    (found,) = read_nodes(f"Some heading\n{line}\n")
    assert (found.memory_mib, found.sockets, found.cores_per_socket) == (2048, 1, 2)


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("(null)", ()),
        ("", ()),
        ("gpu:4", (Accelerators(None, 4, ()),)),
        ("gpu", (Accelerators(None, 1, ()),)),
        ("gpu:a100:4(S:0-1)", (Accelerators("a100", 4, (0, 1)),)),
        ("gpu:2(S:0)", (Accelerators(None, 2, (0,)),)),
        ("gpu:a100:2(S:0,2),gpu:v100:2(S:1)", (Accelerators("a100", 2, (0, 2)), Accelerators("v100", 2, (1,)))),
        ("craynetwork:4,gpu:h100:8(S:0-7),shard:64(S:0-7)", (Accelerators("h100", 8, tuple(range(8))),)),
        ("gpu:nvidia_a100-sxm4-40gb:4(S:0-1)", (Accelerators("nvidia_a100-sxm4-40gb", 4, (0, 1)),)),
        ("gpu:1g.5gb:7(S:0)", (Accelerators("1g.5gb", 7, (0,)),)),
        ("gpu:2080ti:4", (Accelerators("2080ti", 4, ()),)),
        ("gpu:a100:no_consume:2", (Accelerators("a100", 2, ()),)),
        ("gpu:0", ()),
        ("mps:400,vgpu:3", ()),
    ],
)
def test_accelerators_are_found_among_other_resources(gres: str, expected: tuple[Accelerators, ...]) -> None:
    assert read_accelerators(gres) == expected


@pytest.mark.parametrize(
    ("type_", "has_bf16"),
    [
        *(
            (name, True)
            for name in (None, "a100", "h100", "nvidia_a100-sxm4-40gb", "l40s", "rtx3090", "1g.5gb", "mi250x")
        ),
        *(
            (name, False)
            for name in ("v100", "V100S", "tesla_t4", "p100", "nvidia_geforce_rtx_2080_ti", "volta", "2080ti")
        ),
    ],
)
def test_accelerators_older_than_ampere_have_no_bf16(type_: str | None, has_bf16: bool) -> None:
    assert Accelerators(type_, 1, ()).has_bf16 is has_bf16


def cores_of(here: Topology | None = None, **changes: str) -> list[str]:
    return [show_cores(slot.cores) for slot in node_slots(read_nodes(node(**changes))[0], here)]


def test_threads_of_a_core_are_neighbours_on_power() -> None:
    assert cores_of(Arch="ppc64le", ThreadsPerCore="4") == ["0,4,8,12", "16,20,24,28"]


def test_on_a_node_itself_its_cores_have_their_real_numbers() -> None:
    # Even cores on one socket, odd ones on the other.
    here = Topology(((0, 2, 4, 6), (1, 3, 5, 7)), 16, "cpu", 2**34)
    assert cores_of(here) == ["0,2,4,6", "1,3,5,7"]
    assert cores_of(Topology(((0, 1),), 2, "cpu", 2**34)) == ["0-3", "4-7"]  # not such a node


def test_cores_of_the_system_are_no_workers() -> None:
    # Slurm lists hardware threads 6, 7, 14 and 15, two a core: core 3 of socket 0 and core 3 of socket 1.
    assert cores_of(CPUSpecList="6-7,14-15") == ["0-2", "4-6"]
    # One core of one socket: the other socket's slot is as small, as Slurm gives all tasks equally many cores.
    assert cores_of(CPUSpecList="14-15") == ["0-2", "4-6"]


def test_accelerators_of_one_socket_share_its_cores() -> None:
    assert cores_of(Gres="gpu:2(S:1)") == ["4-5", "6-7"]
    assert cores_of(Gres="gpu:a:1(S:1),gpu:b:1(S:0)") == ["4-7", "0-3"]


def test_accelerators_that_sockets_cannot_share_evenly_share_all_cores() -> None:
    assert cores_of(Gres="gpu:3(S:0-1)") == ["0-1", "2-3", "4-5"]
    assert cores_of(Gres="gpu:1") == ["0-7"]


def test_more_accelerators_than_cores_are_cut_to_the_cores() -> None:
    assert cores_of(Sockets="1", CPUTot="8", Gres="gpu:7") == ["0", "1", "2", "3"]


def test_cpus_without_sockets_are_two_halves() -> None:
    # `NodeName=n1 CPUs=24` in slurm.conf reads as 24 sockets of one core.
    assert cores_of(Sockets="24", CoresPerSocket="1", ThreadsPerCore="1", CPUTot="24") == ["0-11", "12-23"]


def test_no_more_cores_than_slurm_schedules() -> None:
    assert cores_of(CPUTot="6", ThreadsPerCore="1") == ["0-2", "3-5"]


@pytest.mark.parametrize(
    ("time", "minutes"),
    [("1-00:00:00", 1440), ("01:30:00", 90), ("2-12:30:59", 3630), ("00:00:30", 1), ("UNLIMITED", None), ("", None)],
)
def test_time_limits_are_whole_minutes(time: str, minutes: int | None) -> None:
    assert minutes_of(time) == minutes


@pytest.mark.parametrize("closed", ["State=DOWN", "State=DRAIN", "State=INACTIVE", "State=UP RootOnly=YES"])
def test_a_partition_that_takes_no_jobs_is_not_drafted(closed: str) -> None:
    with pytest.raises(PlanError, match="none of 1 node"):
        draft_cluster(small(node(), partition=f"PartitionName=all Default=YES {closed}"))


def test_the_default_partition_comes_first() -> None:
    text = (
        "PartitionName=a Default=NO State=UP\nPartitionName=b Default=YES State=UP\nPartitionName=c Default=NO State=UP"
    )
    assert [partition.name for partition in read_partitions(text)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("partition", "gib"),
    [
        (PARTITION, 8.0),  # 16 384 MiB on two slots
        (PARTITION.replace("MaxMemPerNode=UNLIMITED", "MaxMemPerNode=8192"), 4.0),
        (PARTITION.replace("MaxMemPerNode=UNLIMITED", "MaxMemPerCPU=1000"), 3.9),  # 4 cores × 1000 MiB = 3.906 GiB
    ],
)
def test_memory_stays_within_the_limits_of_the_partition(partition: str, gib: float) -> None:
    assert draft_cluster(small(node(), partition=partition)).site.groups[0].memory_gib_per_slot == gib


def test_names_of_nodes_are_folded() -> None:
    assert fold_names(("cn001", "cn002", "cn003", "cn007")) == "cn[001-003,007]"
    assert fold_names(("n9", "n10", "login", "r1n2.x", "r1n1.x")) == "n9,n10,login,r1n[1-2].x"
    assert fold_names(()) == ""


def test_a_newer_name_of_a_plugin_is_understood() -> None:
    assert read_settings("TaskPlugin = affinity,cgroup").binds_tasks
    assert read_settings("TaskPlugin = task/cgroup\nConstrainCores = yes").confines_jobs
    assert not read_settings("TaskPlugin = task/cgroup\nConstrainCores = no").confines_jobs
    assert not read_settings("").binds_tasks
