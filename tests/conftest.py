"""Fixtures: the command line as a user runs it, small real runs, and a Slurm cluster."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.cluster import Cluster
from tests.cluster.requirements import require_cluster
from tests.cluster.runs import SITE, ClusterRun
from tests.local_runs import LocalRun
from tests.two_cores import on_two_cores
from tests.waiting import TIMEOUT_S
from tests.warm import WarmProcess
from trainmark.machine.instructions import avoid_broken_amx, separate_inductor_caches
from trainmark.machine.stop import SIGNALS

# Two test files run concurrently, on as few as two cores: oversubscribed threads would spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # for tests with several threads

# Under nohup, or in the background of a script, some signals are ignored, and by the programs that tests start, too.
for ignored in (each for each in SIGNALS if signal.getsignal(each) is signal.SIG_IGN):
    signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)

avoid_broken_amx()  # as ranks do
separate_inductor_caches()

# A slow machine is no failure of a property.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

ROOT = Path(__file__).resolve().parents[1]

# One thread per worker, since tests share two cores; losses do not depend on the plan.
SMALL = [
    *("--set", "train.epochs=1", "--set", "data.num_train=200", "--set", "data.num_eval=100"),
    *("--set", "measure.ceiling_seconds=0.01", "--set", "launch.threads=1"),
]

Command = Callable[..., subprocess.CompletedProcess[str]]


def _of_tests(folder: Path) -> dict[str, str]:
    """Variables of the program in tests: no accelerator, a wide terminal, an index of their own beside the folder."""
    cache = folder.with_name(f"{folder.name}-cache")
    return {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "TRAINMARK_CACHE_DIR": str(cache)}


@pytest.fixture
def trainmark(tmp_path: Path) -> Command:
    """Runs `trainmark …` in an empty folder; runs are stored in its `runs`."""

    def run(*arguments: str, timeout: float = TIMEOUT_S, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trainmark", *arguments],
            cwd=tmp_path,
            env={**os.environ, **_of_tests(tmp_path), **environment},
            preexec_fn=on_two_cores,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture
def warm_trainmark(tmp_path: Path) -> Command:
    """Like `trainmark`, but faster: see tests/warm.py."""

    def run(*arguments: str, timeout: float = TIMEOUT_S, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, **_of_tests(tmp_path), **environment}
        process = WarmProcess([*arguments], tmp_path, variables)
        try:
            output, errors = process.communicate(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, process.wait(), output, errors)

    return run


@pytest.fixture
def run_small(warm_trainmark: Command) -> Callable[..., dict[str, Any]]:
    """Runs a small but real run to its end; returns the Result."""

    def run(*arguments: str, **environment: str) -> dict[str, Any]:
        done = warm_trainmark("run", *SMALL, "--json", *arguments, **environment)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        assert result["damage"] == []  # readers find all files complete
        return result

    return run


@pytest.fixture
def start_here(tmp_path: Path) -> Iterator[Callable[..., LocalRun]]:
    """Starts runs on this machine in the background, and kills them after the test."""
    started: list[LocalRun] = []

    def begin(*arguments: str, warm: bool = True) -> LocalRun:
        started.append(LocalRun(tmp_path, *arguments, warm=warm))
        return started[-1]

    yield begin
    for run in started:
        run.process.kill()
        run.process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running Slurm cluster of four nodes, shared by the tests of a file; skipped if none can run."""
    require_cluster()
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def start_on_cluster(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., ClusterRun]]:
    """Starts runs on the cluster in the background, and stops them after the test."""
    started: list[ClusterRun] = []

    def begin(*arguments: str, site: Path = SITE, folder: Path = tmp_path) -> ClusterRun:
        started.append(ClusterRun(cluster, folder, *arguments, site=site))
        return started[-1]

    yield begin
    for run in started:
        run.stop()
