"""Runs of trainmark on this machine, in the background, so that a test can disturb them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.run_events import events_of
from tests.two_cores import on_two_cores
from tests.waiting import TIMEOUT_S, wait_until
from tests.warm import WarmProcess

# Four epochs of about a second: long enough to be disturbed.
MEDIUM = [
    *("--set", "train.epochs=4", "--set", "data.num_train=1200", "--set", "data.num_eval=100"),
    *("--set", "measure.ceiling=false", "--set", "launch.threads=1"),
]


class LocalRun:
    """A run in the background, and its folder."""

    def __init__(self, tmp_path: Path, *arguments: str, warm: bool) -> None:
        self.runs = tmp_path / "runs"
        words, environment = ["run", *MEDIUM, *arguments], {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        self.process: subprocess.Popen[str] | WarmProcess
        if warm:
            self.process = WarmProcess(words, tmp_path, environment)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trainmark", *words],
                cwd=tmp_path,
                env=environment,
                preexec_fn=on_two_cores,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    @property
    def folder(self) -> Path:
        return next(path for path in self.runs.iterdir() if (path / "plan.json").exists())

    def events(self, member: int, rank: int = 0) -> list[dict[str, Any]]:
        try:
            return events_of(self.folder, member, rank=rank)
        except (FileNotFoundError, StopIteration, json.JSONDecodeError):
            return []

    def pid(self, member: int, rank: int = 0) -> int:
        return next(int(e["pid"]) for e in self.events(member, rank) if e["kind"] == "rank_started")

    def wait_for(self, kind: str, member: int = 0, rank: int = 0) -> None:
        wait_until(lambda: any(e["kind"] == kind for e in self.events(member, rank)))

    def wait_for_finished(self, *members: int) -> None:
        self.wait_for("run_start")
        wait_until(lambda: all((self.folder / f"jobs/{m:04d}/attempt-1/done.json").exists() for m in members))

    def end(self, timeout: float = TIMEOUT_S) -> tuple[int, str]:
        """Returns the exit code and standard error."""
        _, errors = self.process.communicate(timeout=timeout)
        assert self.process.returncode is not None
        return self.process.returncode, errors


def is_running(pid: int) -> bool:
    """Whether a process is running; zombies are not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
