"""Members started by a real mpirun, and gradients that go over MPI: equal losses, ends that leave nothing behind."""

import json
import os
import shlex
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster import Cluster
from tests.conftest import SMALL, Command
from tests.integration.test_engine import CROWDED
from tests.local_runs import LocalRun, is_running
from tests.mpirun import AS_ROOT, mpich_environment, require_mpirun
from tests.run_events import events_of, losses_of
from tests.waiting import TIMEOUT_S, wait_until
from tests.warm import WarmProcess

TWO_WORKERS = ("--members", "1", "--workers", "2", "--set", "train.batch_size=16")
OVER_MPI = ("--launcher", "mpi", "--set", "train.communication=mpi")
Run = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture(autouse=True)
def _mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    require_mpirun()
    for name, value in AS_ROOT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def run(warm_trainmark: Command, tmp_path: Path) -> Run:
    """Runs a small run to its end; its folder and its Result come back."""

    def run(*arguments: str, **environment: str) -> tuple[Path, dict[str, Any]]:
        done = warm_trainmark("run", *SMALL, "--json", *arguments, **environment)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        assert result["state"] == "complete"
        return tmp_path / "runs" / result["run_id"], result

    return run


@pytest.fixture(scope="module")
def losses_by_gloo(tmp_path_factory: pytest.TempPathFactory) -> list[list[float]]:
    """The losses of both workers where this machine starts them and gloo adds up their gradients."""
    folder = tmp_path_factory.mktemp("gloo")
    by_gloo = WarmProcess(["run", *SMALL, *TWO_WORKERS], folder, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert by_gloo.wait(TIMEOUT_S) == 0
    (stored,) = (folder / "runs").glob("*/plan.json")
    return [losses_of(stored.parent, rank=rank) for rank in (0, 1)]


def test_two_ranks_of_mpirun_train_as_two_processes_do(run: Run, losses_by_gloo: list[list[float]]) -> None:
    folder, result = run("--launcher", "mpi", *TWO_WORKERS)
    assert result["members"][0]["exit"]["exit_codes"] == {"mpirun": 0}
    for rank in (0, 1):
        started = events_of(folder, rank=rank)[0]
        assert started["rank"] == rank
        assert started["affinity"]["verified"], started["affinity"]
    attempt = folder / "jobs/0000/attempt-1"
    assert {path.name for path in attempt.glob("*.log")} == {"mpirun.log", "rank-0.log", "rank-1.log"}
    assert not (attempt / "failed").exists()
    assert losses_of(folder) == losses_by_gloo[0]


def test_members_by_an_mpirun_each_start_together_on_cores_of_their_own(run: Run) -> None:
    folder, result = run("--launcher", "mpi", "--members", "2", "--workers", "1")
    cores = [events_of(folder, member)[0]["affinity"]["cores_allowed"] for member in (0, 1)]
    assert cores[0] != cores[1]
    starts = [(folder / f"jobs/{member:04d}/attempt-1/go").read_text() for member in (0, 1)]
    assert starts[0] == starts[1]
    assert not any("should run" in warning for warning in result["warnings"])


def test_gradients_of_two_workers_over_mpi_are_those_of_gloo_bit_by_bit(
    run: Run, losses_by_gloo: list[list[float]]
) -> None:
    over_mpi, result = run(*OVER_MPI, *TWO_WORKERS)
    # a/2 + b/2 has one rounding, in whatever order it is added up.
    assert [losses_of(over_mpi, rank=rank) for rank in (0, 1)] == losses_by_gloo
    metrics = result["metrics"]
    assert 0 <= metrics["communication_share"]["value"] < 1
    assert metrics["communication_bytes_per_step"]["value"] is None
    assert "MPI sends gradients" in metrics["communication_bytes_per_step"]["reason"]


def test_gradients_of_four_workers_over_mpi_are_those_of_gloo_up_to_rounding(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(CROWDED)
    four = ("--members", "1", "--workers", "4", "--site", "site.toml", "--set", "train.batch_size=8")
    over_mpi, _ = run(*OVER_MPI, *four)
    by_gloo, _ = run(*four)
    for rank in range(4):
        # Three additions in another order: each rounds by at most 2^-24 of a sum; six steps carry that on.
        assert losses_of(over_mpi, rank=rank) == pytest.approx(losses_of(by_gloo, rank=rank), rel=1e-5)


def test_hydra_starts_ranks_and_mpich_adds_up_their_gradients_as_open_mpi_does(
    run: Run, tmp_path: Path, losses_by_gloo: list[list[float]]
) -> None:
    folder, result = run(*OVER_MPI, *TWO_WORKERS, **mpich_environment(tmp_path))
    assert result["members"][0]["exit"]["exit_codes"] == {"mpirun": 0}
    assert " -launcher fork -hosts localhost:2 -bind-to none -n 2 " in (folder / "jobs/0000/job.sh").read_text()
    assert all(events_of(folder, rank=rank)[0]["affinity"]["verified"] for rank in (0, 1))
    assert [losses_of(folder, rank=rank) for rank in (0, 1)] == losses_by_gloo


def test_without_mpirun_a_run_is_refused_in_one_line(trainmark: Command, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = trainmark("run", *SMALL, "--launcher", "mpi", PATH=str(tmp_path / "bin"))
    assert done.returncode == 2
    assert "needs mpirun, but there is none on PATH" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_an_mpirun_of_another_library_than_mpi4pys_is_told_from_ranks_that_are_alone(
    trainmark: Command, tmp_path: Path
) -> None:
    environment = mpich_environment(tmp_path) | {"MPI4PY_MPIABI": "openmpi"}
    done = trainmark("run", *SMALL, *OVER_MPI, *TWO_WORKERS, **environment)
    assert done.returncode == 1
    assert "but its MPI rank is 0 of 1. Start the workers with the mpirun of mpi4py" in done.stderr


# How it ends


@pytest.fixture
def start(start_here: Callable[..., LocalRun]) -> Callable[..., LocalRun]:
    """Starts runs by mpirun."""
    return partial(start_here, "--launcher", "mpi", warm=False)


def processes_of(run: LocalRun, workers: int) -> tuple[list[int], int]:
    """The numbers of member 0's ranks, and of their mpirun."""
    ranks = [run.pid(0, rank) for rank in range(workers)]
    (mpirun,) = {psutil.Process(pid).ppid() for pid in ranks}
    assert "mpirun" in psutil.Process(mpirun).cmdline()[0]
    return ranks, mpirun


def test_a_killed_rank_is_named_its_peers_end_and_the_member_can_be_resumed(
    start: Callable[..., LocalRun], trainmark: Command
) -> None:
    run = start(*TWO_WORKERS, "--set", "train.communication=mpi")
    run.wait_for("epoch_stop", rank=1)
    ranks, _ = processes_of(run, workers=2)
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    code, errors = run.end()
    assert time.monotonic() - killed < 20
    assert code == 1
    assert "member 0 failed: rank 1 killed by signal 9 (SIGKILL)" in errors
    assert not any(is_running(pid) for pid in ranks)
    done = trainmark("resume", "latest", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["members"][0]["attempts"] == 2


def test_a_killed_launcher_takes_mpirun_and_its_ranks_along(start: Callable[..., LocalRun]) -> None:
    run = start(*TWO_WORKERS, "--set", "train.epochs=100")
    run.wait_for("epoch_stop", rank=1)
    ranks, mpirun = processes_of(run, workers=2)
    os.kill(run.process.pid, signal.SIGKILL)
    run.end()
    wait_until(lambda: not any(is_running(pid) for pid in (*ranks, mpirun)), seconds=10)


def test_a_killed_mpirun_leaves_no_ranks_behind(start: Callable[..., LocalRun]) -> None:
    run = start(*TWO_WORKERS, "--set", "train.epochs=100")
    run.wait_for("epoch_stop", rank=1)
    ranks, mpirun = processes_of(run, workers=2)
    os.kill(mpirun, signal.SIGKILL)
    code, errors = run.end()
    assert code == 1
    assert "mpirun killed by signal 9 (SIGKILL)" in errors
    wait_until(lambda: not any(is_running(pid) for pid in ranks), seconds=10)


def test_an_interrupted_run_ends_within_seconds(start: Callable[..., LocalRun]) -> None:
    run = start(*TWO_WORKERS, "--set", "train.epochs=100")
    run.wait_for("epoch_stop", rank=1)
    ranks, mpirun = processes_of(run, workers=2)
    run.process.send_signal(signal.SIGINT)
    stopped = time.monotonic()
    code, errors = run.end()
    assert time.monotonic() - stopped < 15
    assert code == 130
    assert "Stopped by SIGINT" in errors
    assert not any(is_running(pid) for pid in (*ranks, mpirun))


# Over the nodes of a cluster

SITE = """name = "two-nodes"
[[groups]]
prefix = "n"
count = 2
slots = [{ cores = "0" }]
[slurm]
mpi = "pmix"
poll_s = 1.0
"""


def test_members_over_two_nodes_by_mpirun_and_by_slurms_pmix_have_the_losses_of_one_machine(
    cluster: Cluster, run: Run, tmp_path: Path, losses_by_gloo: list[list[float]]
) -> None:
    (tmp_path / "site.toml").write_text(SITE)
    on_nodes = (*TWO_WORKERS, "--site", "site.toml", "--set", "train.communication=mpi")
    by_mpirun, _ = run("--launcher", "mpi", *on_nodes, OMPI_MCA_plm_rsh_agent=str(remote_shell(cluster, tmp_path)))
    assert [events_of(by_mpirun, rank=rank)[0]["host"] for rank in (0, 1)] == ["n1", "n2"]
    by_srun, _ = run("--launcher", "slurm", *on_nodes, **cluster.environment())
    assert len({events_of(by_srun, rank=rank)[0]["host"] for rank in (0, 1)}) == 2
    assert losses_of(by_mpirun) == losses_of(by_srun) == losses_by_gloo[0]


def remote_shell(cluster: Cluster, folder: Path) -> Path:
    """Stands where ssh would: runs a command on the node of that name."""
    cases = [f'{name}) exec {shlex.join(cluster.node(name).inside(["sh", "-c"]))} "$*";;' for name in ("n1", "n2")]
    shell = folder / "remote-shell"
    shell.write_text("\n".join(["#!/bin/sh", 'host=$1; shift; case "$host" in', *cases, "esac", "exit 1", ""]))
    shell.chmod(0o755)
    return shell
