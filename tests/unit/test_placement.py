"""Which rank a process is, and which cores and accelerator it is bound to."""

import pytest

from trainmark.machine.topology import Topology
from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Rank
from trainmark.train import placement

RANKS = tuple(Rank(r, f"n{1 + r // 2}", r % 2, (2 * (r % 2), 2 * (r % 2) + 1), r % 2) for r in range(4))


def test_a_rank_is_found_by_number_by_slurm_or_by_mpi() -> None:
    assert placement.find_rank("2", RANKS, {}).rank == 2
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "OMPI_COMM_WORLD_RANK": "0"}
    assert placement.find_rank("slurm", RANKS, slurm).rank == 3
    # mpirun inside a job: the batch step has a number of its own.
    mpi = {"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    assert placement.find_rank("mpi", RANKS, mpi).rank == 1
    assert placement.find_rank("mpi", RANKS, {"PMI_RANK": "2", "PMI_SIZE": "4"}).rank == 2


def test_too_few_processes_and_missing_numbers_are_refused() -> None:
    with pytest.raises(PlanError, match="slurm started 2 processes, but the member has 4 workers"):
        placement.find_rank("slurm", RANKS, {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"})
    with pytest.raises(PlanError, match="SLURM_PROCID"):
        placement.find_rank("slurm", RANKS, {})


@pytest.mark.parametrize(
    ("given", "rank", "cores"),
    [
        ((6, 7), 1, (6, 7)),  # srun has bound this rank to its own cores
        ((4, 5, 6, 7), 0, (4, 5)),  # task/cgroup alone: the cores of both ranks of the node
        ((4, 5, 6, 7), 1, (6, 7)),
    ],
)
def test_a_rank_takes_the_cores_that_slurm_gave_it(
    monkeypatch: pytest.MonkeyPatch, given: tuple[int, ...], rank: int, cores: tuple[int, ...]
) -> None:
    monkeypatch.setattr(placement, "read_topology", lambda: Topology((given,), len(given), "", 0))
    assert placement._bound_cores(RANKS[rank], RANKS) == cores


def test_a_rank_with_another_number_of_cores_than_planned_refuses_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "read_topology", lambda: Topology(((0, 1, 2),), 3, "", 0))
    with pytest.raises(PlanError, match=r"Rank 0 should have 2 cores, but Slurm has bound it to cores 0-2"):
        placement._bound_cores(RANKS[0], RANKS)


@pytest.mark.parametrize(
    ("given", "rank", "sees"),
    [
        ("4,6", 0, "4"),
        ("4,6", 1, "6"),
        ("GPU-aa,GPU-bb", 3, "GPU-bb"),
        ("5", 1, "5"),  # Slurm has already given each rank its own
        (None, 1, "1"),  # nodes without confinement: the plan's
        ("0,1,2,3", 1, "1"),  # all of the node's, though the member has two: the plan's, too
    ],
)
def test_of_the_nodes_accelerators_a_rank_sees_its_own(
    monkeypatch: pytest.MonkeyPatch, given: str | None, rank: int, sees: str
) -> None:
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    placement._choose_accelerator(RANKS[rank], RANKS)
    assert placement.os.environ["CUDA_VISIBLE_DEVICES"] == sees


def test_more_ranks_than_accelerators_of_a_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    three = tuple(Rank(r, "n1", r, (r,), r) for r in range(3))
    with pytest.raises(PlanError, match="number 2 on its node, but Slurm allocated accelerators 0,1"):
        placement._choose_accelerator(three[2], three)


def test_a_member_beside_another_one_takes_its_own_of_all_accelerators_of_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    (alone,) = (Rank(0, "n1", 0, (1,), 1),)  # the second lane of a node with two slots
    placement._choose_accelerator(alone, (alone,))
    assert placement.os.environ["CUDA_VISIBLE_DEVICES"] == "1"
