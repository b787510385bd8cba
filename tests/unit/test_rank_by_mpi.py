"""A process takes its rank from MPI, and refuses a placement that differs from the plan."""

import re

import pytest

from trainmark.spec.errors import PlanError
from trainmark.spec.plan import Rank
from trainmark.train.placement import find_rank

RANKS = (Rank(0, "n1", 0, (0,), None), Rank(1, "n2", 0, (0,), None))
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}


@pytest.mark.parametrize("variables", [OPEN_MPI, HYDRA], ids=["open-mpi", "hydra"])
def test_a_process_takes_its_rank_from_mpi(variables: dict[str, str]) -> None:
    assert find_rank("mpi", RANKS, variables) is RANKS[1]


@pytest.mark.parametrize("variables", [OPEN_MPI, HYDRA], ids=["open-mpi", "hydra"])
@pytest.mark.parametrize(
    ("which", "value", "words"),
    [
        (1, "4", "mpi started 4 processes, but the member has 2 workers."),
        (2, "1", "mpi made rank 1 number 1 on its node, but the plan made it number 0"),
    ],
)
def test_a_start_that_is_not_the_plans_is_refused(
    variables: dict[str, str], which: int, value: str, words: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(words)):
        find_rank("mpi", RANKS, variables | {list(variables)[which]: value})


def test_a_process_that_mpi_has_not_started_is_refused() -> None:
    with pytest.raises(PlanError, match=r"none of OMPI_COMM_WORLD_RANK, PMI_RANK is set\. Start it with job\.sh"):
        find_rank("mpi", RANKS, {})
