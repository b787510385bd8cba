"""Where gradients cannot go over MPI, a worker says in one line what is missing."""

import subprocess
import sys

import pytest

JOIN = """
import sys
import torch
from trainmark.spec.errors import TrainmarkError
from trainmark.train.torch.communication.mpi import join_world
from trainmark.train.torch.protocols import WorkerGroup
if sys.argv[1] == "no-mpi4py":
    sys.modules["mpi4py"] = None  # as the import system marks what it cannot find
try:
    join_world(WorkerGroup(0, ("node", "node"), None, torch.device("cpu")))
except TrainmarkError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("no-mpi4py", "needs mpi4py, which is not installed on the nodes. Install it there: pip install"),
        ("no-library", "mpi4py cannot load an MPI library: "),
    ],
)
def test_what_mpi_lacks_is_one_line_that_says_what_to_do(case: str, words: str) -> None:
    environment = {"MPI4PY_LIBMPI": "/no/such/libmpi.so", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", JOIN, case], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    assert done.stdout.count("\n") == 1
