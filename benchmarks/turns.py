"""Programs that train in turns on the same cores, so that all of them see the same noise of a shared machine.

While one runs, the others are stopped (SIGSTOP); they change every `turn_s`. Steps that a change cuts are left out,
everything else counts.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

Array = NDArray[np.float64]
Steps = tuple[Array, Array]  # start and end of each, by the monotonic clock

MARGIN_S = 0.002  # between sending a signal and the process stopping or continuing


@dataclass
class Contestant:
    """A running program: its processes, and where it records its steps."""

    name: str
    processes: list[subprocess.Popen[bytes]]
    folder: Path
    pids: list[int] = field(default_factory=list)
    start_s: float = 0.0

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to all its processes."""
        for pid in self.pids:
            os.kill(pid, number)

    def end(self) -> None:
        """Kills it; trainmark's ranks end with their launcher."""
        for process in self.processes:
            process.kill()
            process.wait()


def start_trainmark(name: str, folder: Path, options: list[str]) -> Contestant:
    """Starts a run of one member that would train for hours."""
    command = [sys.executable, "-m", "trainmark", "run", "--members", "1", "--runs-dir", str(folder), "--json"]
    for setting in ("train.epochs=100000", "ensemble.bootstrap=none", "evaluate.every_epochs=100000"):
        command += ["--set", setting]
    command += ["--set", "measure.ceiling=false", "--set", "launch.checkpoint_epochs=0", *options]
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / "log").open("wb")
    return Contestant(name, [subprocess.Popen(command, stdout=log, stderr=log)], folder)


def wait_until_training(contestant: Contestant, limit_s: float = 300) -> str | None:
    """Waits until the run has trained some steps; returns the reason if it ended instead."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        events = [path.read_text() for path in contestant.folder.glob("*/events/0000/attempt-1/rank-0.jsonl")]
        if any('"kind":"steps"' in text for text in events):
            (launcher,) = contestant.processes
            children = psutil.Process(launcher.pid).children(recursive=True)
            contestant.pids = [launcher.pid, *(child.pid for child in children)]
            return None
        if any(process.poll() is not None for process in contestant.processes):
            return (contestant.folder / "log").read_text().strip().splitlines()[-1]
        time.sleep(0.05)
    return f"did not train within {limit_s:g} s"


def take_turns(contestants: list[Contestant], turn_s: float, seconds: float) -> Array:
    """Runs them in turns, round after round; returns the switching times."""
    for contestant in contestants:
        contestant.signal(signal.SIGSTOP)
    changes = []
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        for contestant in contestants:
            changes.append(time.monotonic())
            contestant.signal(signal.SIGCONT)
            time.sleep(turn_s)
            contestant.signal(signal.SIGSTOP)
    changes.append(time.monotonic())
    for contestant in contestants:
        contestant.signal(signal.SIGCONT)
    return np.array(changes)


def whole_steps(steps: Steps, changes: Array) -> Steps:
    """Durations and midpoints of the steps that lie within one turn."""
    starts, ends = steps
    turn_of_start = np.searchsorted(changes, starts - MARGIN_S)
    inside = (turn_of_start == np.searchsorted(changes, ends + MARGIN_S)) & (turn_of_start > 0)
    inside &= turn_of_start < len(changes)
    return (ends - starts)[inside], ((starts + ends) / 2)[inside]


def trainmark_steps(folder: Path) -> Steps:
    """Start and end of every step that trainmark recorded, including recording itself."""
    (path,) = folder.glob("*/events/0000/attempt-1/rank-0.jsonl")
    starts, ends, now = [], [], 0.0
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "epoch_start":
            now = event["monotonic_s"]
        elif event["kind"] == "steps":
            for step_s in event["step_s"]:
                starts.append(now)
                now += step_s
                ends.append(now)
    return np.array(starts), np.array(ends)


def means_by_part(measured: Steps, changes: Array, parts: int) -> Array:
    """The mean step in each of `parts` equal pieces of the whole time; NaN if a piece has no complete step."""
    durations, middles = measured
    limits = np.linspace(changes[0], changes[-1], parts + 1)
    inside = [durations[(middles >= a) & (middles < b)] for a, b in pairwise(limits)]
    return np.array([part.mean() if len(part) else np.nan for part in inside])
