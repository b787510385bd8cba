"""Making data can be stopped at any moment, by anybody: it says so, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.two_cores import on_two_cores

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `trainmark …` in an empty folder and comes back once it makes data."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainmark", *arguments],
            cwd=tmp_path,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            preexec_fn=on_two_cores,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        deadline = time.monotonic() + 60
        while not unfinished(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert unfinished(tmp_path), process.communicate()
        return process

    yield begin
    for process in started:
        process.kill()


def unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.is_dir()]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_make_that_is_stopped_says_so_and_leaves_nothing(
    start: Start, tmp_path: Path, signum: signal.Signals
) -> None:
    process = start("data", "make", "extreme-weather", "-o", "storms", "--set", "num_train=9000")
    process.send_signal(signum)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == f"trainmark: Stopped by {signum.name}; nothing was left in storms."
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_stopped_while_it_makes_data_leaves_none(start: Start, tmp_path: Path) -> None:
    process = start("run", "extreme-weather", "--set", "data.num_train=9000")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Stopped by SIGTERM; nothing was left in runs/data/extreme-weather-" in errors.splitlines()[-1]
    assert list((tmp_path / "runs" / "data").iterdir()) == []


def test_the_next_make_removes_what_a_killed_one_left(start: Start, trainmark: Command, tmp_path: Path) -> None:
    process = start("data", "make", "extreme-weather", "-o", "storms", "--set", "num_train=9000")
    process.kill()
    process.communicate()
    assert len(unfinished(tmp_path)) == 1
    again = ("data", "make", "extreme-weather", "-o", "storms", "--set", "num_train=2", "--set", "num_eval=1")
    assert trainmark(*again).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["storms"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("run extreme-weather --set data.num_train=100000000", 1, "but generating these data writes about 35.76 TiB"),
        ("data make extreme-weather -o storms --set num_train=100000000", 1, "writes about 35.76 TiB"),
        (
            "run --set dataset=synthetic --set data.num_train=100000000000",
            2,
            "it must be at most 100,000,000, but got",
        ),
        ("data make extreme-weather -o file/storms", 1, "file/storms cannot be written: not a directory"),
        ("run extreme-weather --runs-dir file/runs", 2, "Choose another folder with --runs-dir"),
    ],
)
def test_what_cannot_be_made_is_one_line_at_once(
    trainmark: Command, tmp_path: Path, arguments: str, code: int, says: str
) -> None:
    (tmp_path / "file").touch()
    done = trainmark(*arguments.split(), timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
