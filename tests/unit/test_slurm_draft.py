"""A site is drafted from what scontrol prints, of three clusters and of oddities that real ones have."""

import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.written_clusters import node, small, written
from trainmark.machine.draft import SlurmText, ask_slurm, draft_cluster, draft_site
from trainmark.machine.site_file import site_toml
from trainmark.machine.slurm import programs
from trainmark.machine.slurm.groups import Here
from trainmark.machine.slurm.programs import SlurmRefusedError, SlurmUnreachableError
from trainmark.machine.topology import Topology
from trainmark.plan.resolve import read_site_file
from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site
from trainmark.spec.units import show_cores


def slots_of(group: NodeGroup) -> list[tuple[str, int | None]]:
    return [(show_cores(slot.cores), slot.accelerator) for slot in group.slots]


def read_back(text: str, folder: Path) -> Site:
    file = folder / "site.toml"
    file.write_text(text, encoding="utf-8")
    return read_site_file(file)


@pytest.mark.parametrize("cluster", ["two-socket", "four-gpus", "arm"])
def test_a_draft_is_a_site_file_that_says_what_was_drafted(cluster: str, tmp_path: Path) -> None:
    draft = draft_cluster(written(cluster))
    text = site_toml(draft)
    assert read_back(text, tmp_path) == draft.site
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize("cluster", ["two-socket", "four-gpus", "arm"])
def test_the_lines_to_fill_in_are_valid_once_they_are_no_comments(cluster: str, tmp_path: Path) -> None:
    lines = site_toml(draft_cluster(written(cluster))).splitlines()
    filled = [
        line.removeprefix("# ") if line.split(" = ")[0].removeprefix("# ").isidentifier() else line for line in lines
    ]
    site = read_back("\n".join(filled), tmp_path)
    assert site.slurm.account == "PROJECT"
    assert site.container[0] == "apptainer"
    assert site.groups[0].network_interface == "ib0"


def test_two_sockets_are_two_slots_of_physical_cores() -> None:
    standard, fat = draft_cluster(written("two-socket")).site.groups
    # The default partition comes first; of cn001 to cn006, one is down and one drained; cn007 is in none of ours.
    assert (standard.partition, standard.count, slots_of(standard)) == (
        "standard",
        4,
        [("0-23", None), ("24-47", None)],
    )
    assert (fat.partition, fat.count) == ("fat", 2)
    # (191 000 − 4096) MiB / 2 = 93 452 MiB = 91.3 GiB; (770 000 − 4096) / 2 = 382 952 MiB = 373.98 GiB
    assert (standard.memory_gib_per_slot, fat.memory_gib_per_slot) == (91.0, 373.0)
    assert standard.local_storage == "/local/scratch"


def test_what_slurm_does_is_taken_over_from_its_configuration() -> None:
    slurm = draft_cluster(written("two-socket")).site.slurm
    # 1-00:00:00 of `standard` is less than 2-00:00:00 of `fat`.
    assert (slurm.binding, slurm.mpi, slurm.time_limit_minutes) == ("slurm", "pmix", 1440)
    text = site_toml(draft_cluster(written("two-socket")))
    assert '# account = "PROJECT"  # required on this cluster' in text


def test_a_node_of_several_partitions_is_drafted_once_and_the_others_are_named() -> None:
    text = site_toml(draft_cluster(written("two-socket")))
    assert "# These nodes are also in other partitions: short (all, up to 2 h 00 min)." in text
    text = site_toml(draft_cluster(written("four-gpus")))
    assert "# These nodes are also in other partitions: gpu-debug (1 of 4, up to 30 min 00 s)." in text


def test_nodes_that_take_no_jobs_are_counted_out_with_their_names() -> None:
    text = site_toml(draft_cluster(written("two-socket")))
    assert "# cn[001-002,004,006]: 2 sockets × 24 cores × 2 hardware threads, 182 GiB for jobs." in text
    assert "# Not counted, because they are unavailable: cn[003,005] (1 down, 1 drained)." in text
    assert "# Left out: 1 node in no partition open to you." in text


def test_each_accelerator_is_a_slot_with_cores_of_its_socket() -> None:
    gpu, old = draft_cluster(written("four-gpus")).site.groups
    # Of 32 cores of a socket the last is the system's; two accelerators share 31, which is 15 each.
    assert slots_of(gpu) == [("0-14", 0), ("15-29", 1), ("32-46", 2), ("47-61", 3)]
    assert (gpu.gres, gpu.bf16, gpu.count) == ("gpu:a100", True, 4)
    # (515 000 − 8192) MiB / 4 = 126 702 MiB = 123.7 GiB
    assert gpu.memory_gib_per_slot == 123.0
    assert slots_of(old) == [("0-19", 0), ("20-39", 1)]
    assert (old.gres, old.bf16) == ("gpu:v100", False)


def test_cgroups_that_constrain_cores_bind_jobs_but_not_their_tasks() -> None:
    draft = draft_cluster(written("four-gpus"))
    assert draft.site.slurm.binding == "slurm"
    assert '"plan" if members have several workers per node' in site_toml(draft)
    assert "Core numbers are an assumption" in site_toml(draft)


def test_one_socket_is_two_slots() -> None:
    (arm,) = draft_cluster(written("arm")).site.groups
    # Sleeping nodes wake up for a job; a3 is in maintenance.
    assert (arm.count, slots_of(arm)) == (3, [("0-39", None), ("40-79", None)])
    assert arm.memory_gib_per_slot == 125.0  # 257 000 MiB / 2 = 125.5 GiB
    assert arm.local_storage is None  # TmpFS is /scratch/%n, which a site file cannot say


def test_slurm_without_binding_leaves_it_to_the_plan() -> None:
    draft = draft_cluster(written("arm"))
    assert (draft.site.slurm.binding, draft.site.slurm.time_limit_minutes) == ("plan", None)
    assert "Jobs get exclusive nodes here" in site_toml(draft)


# Hostile and large answers


def test_memory_that_nobody_configured_is_left_open() -> None:
    draft = draft_cluster(small(node(RealMemory="1")))
    assert draft.site.groups[0].memory_gib_per_slot is None
    assert "# memory_gib_per_slot = 4  # Slurm does not report the nodes' memory" in site_toml(draft)


def test_nodes_that_differ_in_hardware_are_groups_of_their_own(tmp_path: Path) -> None:
    nodes = [node(NodeName=f"n{number}") for number in (1, 2)]
    nodes += [node(NodeName="n3", Gres="gpu:a100:2"), node(NodeName="n4", RealMemory="32768")]
    draft = draft_cluster(small(*nodes))
    assert [(group.prefix, group.count) for group in draft.site.groups] == [
        ("all-", 2),
        ("all-kind2-", 1),
        ("all-kind3-", 1),
    ]
    assert read_back(site_toml(draft), tmp_path) == draft.site


def test_the_machine_that_drafts_may_be_a_node() -> None:
    here = Here("n1.cluster.example", Topology(((0, 2, 4, 6), (1, 3, 5, 7)), 16, "cpu", 2**34))
    text = small(node(), node(NodeName="n2"), settings="TaskPlugin = task/none")
    assert slots_of(draft_cluster(text, here).site.groups[0]) == [("0,2,4,6", None), ("1,3,5,7", None)]
    assert "assumption" not in site_toml(draft_cluster(text, here))
    assert "assumption" in site_toml(draft_cluster(text))


HOSTILE = st.text(st.characters(exclude_characters="\n"), max_size=20)


@given(cluster=HOSTILE, partition=HOSTILE, name=HOSTILE, gres=HOSTILE, feature=HOSTILE, spec=HOSTILE, mpi=HOSTILE)
def test_whatever_slurm_says_the_draft_is_valid(
    tmp_path_factory: pytest.TempPathFactory,
    cluster: str,
    partition: str,
    name: str,
    gres: str,
    feature: str,
    spec: str,
    mpi: str,
) -> None:
    fields = {"NodeName": name, "Gres": f"gpu:{gres}:2", "ActiveFeatures": feature, "CPUSpecList": spec}
    text = SlurmText(
        f"ClusterName = {cluster}\nMpiDefault = {mpi}\nTmpFS = /{mpi}\nTaskPlugin = {mpi}\n",
        f"PartitionName={partition} Default=YES State=UP AllowQos={feature}\nPartitionName=b State=UP\n",
        f"{node(**fields, Partitions=f'{partition},b')}\n{node(NodeName='n2', Partitions='b')}\n",
    )
    draft = draft_cluster(text)
    written_out = site_toml(draft)
    assert tomllib.loads(written_out)["groups"]
    assert read_back(written_out, tmp_path_factory.getbasetemp()) == draft.site


def test_ten_thousand_nodes_are_one_group() -> None:
    draft = draft_cluster(small(*(node(NodeName=f"n{number:05d}") for number in range(10_000))))
    assert draft.site.num_nodes == 10_000
    assert "# n[00000-09999]: " in site_toml(draft)
    assert len(site_toml(draft)) < 3000


def fake_scontrol(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program of that name, first on the path, for what a real one does only when a cluster is broken."""
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_controller_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"
    fake_scontrol(tmp_path, monkeypatch, f"echo '{said}' >&2; exit 1")
    with pytest.raises(SlurmUnreachableError) as error:
        ask_slurm()
    assert str(error.value) == (
        f"slurmctld is unreachable: {said}. Try again when `sinfo` lists the partitions. "
        "For a draft of this machine only: trainmark machine --draft-site --no-slurm."
    )


def test_slurm_without_a_configuration_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "scontrol: error: fetch_config: DNS SRV lookup failed\\nscontrol: fatal: Could not establish a configuration"
    )
    fake_scontrol(tmp_path, monkeypatch, f"printf '{lines} source\\n' >&2; exit 1")
    with pytest.raises(SlurmRefusedError) as error:
        ask_slurm()
    assert str(error.value).startswith(
        "scontrol cannot list the nodes: Could not establish a configuration source. Run where `sinfo` works"
    )
    assert str(error.value).isprintable()


def test_a_scontrol_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_scontrol(tmp_path, monkeypatch, "exec sleep 30")
    monkeypatch.setattr(programs, "TIMEOUT_S", 0.2)
    with pytest.raises(SlurmUnreachableError, match=r"is unreachable: scontrol did not answer within 0 s\. Try again"):
        ask_slurm()


def test_an_answer_without_nodes_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(PlanError, match=r"Slurm shows no nodes\. Try again when `sinfo` shows idle"):
        draft_cluster(SlurmText("", "", "No nodes in the system\n"))
    with pytest.raises(PlanError, match=r"none of 2 nodes is available \(1 down, 1 drained\)"):
        draft_cluster(small(node(State="DOWN"), node(NodeName="n2", State="IDLE+DRAIN")))


def test_groups_without_an_available_node_are_left_out_with_a_note() -> None:
    text = site_toml(draft_cluster(small(node(), node(NodeName="g1", Gres="gpu:4", State="DOWN*"))))
    assert "# Left out, because none of them is available: nodes of partition all, 1 down." in text


def test_without_slurm_this_machine_is_drafted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ask in (True, False):
        monkeypatch.setenv("PATH", str(tmp_path) if ask else os.environ["PATH"])
        draft = draft_site(ask_scheduler=ask)
        text = site_toml(draft)
        assert read_back(text, tmp_path) == draft.site
        assert "[slurm]" not in text
        assert "# Drafted from this machine only: " in text
