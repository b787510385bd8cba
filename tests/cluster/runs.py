"""Runs of trainmark on the test cluster, in the background, so that a test can disturb them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.run_events import events_of
from tests.waiting import TIMEOUT_S, wait_until

SITE = Path(__file__).with_name("site.toml")
ONE_SLOT_SITE = Path(__file__).with_name("one-slot.toml")
GPU_SITE = Path(__file__).with_name("two-gpus.toml")

# Six epochs of about a second: long enough to be disturbed.
MEDIUM = [
    *("--set", "train.epochs=6", "--set", "data.num_train=800", "--set", "data.num_eval=100"),
    *("--set", "measure.ceiling=false", "--set", "train.batch_size=32", "--set", "launch.threads=1"),
]


class ClusterRun:
    """A run with the launcher `slurm`, its folder, and commands on it."""

    def __init__(self, cluster: Cluster, folder: Path, *arguments: str, site: Path = SITE) -> None:
        self._environment = {**os.environ, **cluster.environment(), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "160"}
        self._cwd = folder
        self.runs = folder / "runs"
        command = [sys.executable, "-m", "trainmark", "run", "--launcher", "slurm", "--site", str(site), "--json"]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def folder(self) -> Path:
        """The run's folder, once it exists."""
        wait_until(lambda: any(self.runs.glob("*/plan.json")))
        return next(self.runs.glob("*/plan.json")).parent

    def events(self, member: int, attempt: int = 1, rank: int = 0) -> list[dict[str, Any]]:
        """Returns the events of a rank so far."""
        try:
            return events_of(self.folder, member, attempt, rank)
        except (FileNotFoundError, json.JSONDecodeError):
            return []

    def wait_for(self, kind: str, member: int = 0, attempt: int = 1) -> dict[str, Any]:
        """Waits for the first event of that kind and returns it."""
        wait_until(lambda: any(e["kind"] == kind for e in self.events(member, attempt)))
        return next(e for e in self.events(member, attempt) if e["kind"] == kind)

    def job_of(self, member: int) -> str:
        """Returns the ID of a member's newest job."""
        found = [json.loads(path.read_text()) for path in sorted((self.folder / "submissions").glob("*.json"))]
        for submission in reversed(found):
            members = [task["member"] for task in submission["tasks"]]
            if member in members:
                number = str(submission["job_id"])
                return f"{number}_{members.index(member)}" if submission["is_array"] else number
        raise LookupError(member)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "trainmark", *arguments],
            cwd=self._cwd,
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def trainmark(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command."""
        return subprocess.run(
            [sys.executable, "-m", "trainmark", *arguments],
            cwd=self._cwd,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def end(self, timeout: float = TIMEOUT_S) -> tuple[int, dict[str, Any], str]:
        """Returns the exit code, the Result and standard error."""
        output, errors = self.process.communicate(timeout=timeout)
        return self.process.returncode, json.loads(output) if output.strip() else {}, errors

    def resume(self) -> dict[str, Any]:
        """Returns the Result of `trainmark resume`, which must succeed."""
        done = self.trainmark("resume", "latest", "--json")
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def stop(self) -> None:
        """Kills the run and cancels its jobs."""
        self.process.kill()
        self.process.wait()
        if any(self.runs.glob("*/plan.json")):
            self.trainmark("cancel", "latest")


def states(result: dict[str, Any]) -> list[str]:
    """Returns the state of each member."""
    return [member["state"] for member in result["members"]]
