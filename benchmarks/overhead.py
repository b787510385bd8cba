"""What the harness costs: steps per second of `trainmark run` over those of a bare loop, in turns on the same cores.

Both are whole, real process trees. While one trains, the other is stopped (SIGSTOP); every TURN_S they change. So both
meet the same noise of a shared machine. Steps that a change of turns cuts are left out, everything else counts.

Usage: python benchmarks/overhead.py [--seconds S] [--json FILE]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from trainmark.collect.statistics import median_interval
from trainmark.launch.environment import rank_environment
from trainmark.machine.describe import describe_machine
from trainmark.machine.topology import read_topology
from trainmark.spec.config import LaunchConfig
from trainmark.spec.plan import Rank

TURN_S = 0.25
SAMPLES = 2048
PARTS = 20  # the turns are put in as many groups, each with a ratio of its own
BARE = Path(__file__).with_name("bare_loop.py")

Array = NDArray[np.float64]


def start_bare(workers: int, folder: Path) -> list[subprocess.Popen[bytes]]:
    """The hand-written loop; it trains when the file `go` appears."""
    processes = []
    for rank, core in enumerate(read_topology().cores[:workers]):
        command = [sys.executable, str(BARE), "--rank", str(rank), "--workers", str(workers), "--core", str(core)]
        command += ["--samples", str(SAMPLES), "--folder", str(folder)]
        given = rank_environment(LaunchConfig(), Rank(rank, "", rank, (core,), None))
        environment = {**os.environ, **given, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
        processes.append(subprocess.Popen(command, env=environment))
    return processes


def start_trainmark(workers: int, folder: Path) -> subprocess.Popen[bytes]:
    """A whole run of one member that would train for hours."""
    command = [sys.executable, "-m", "trainmark", "run", "--members", "1", "--workers", str(workers), "--json"]
    for setting in ("train.epochs=10000", "ensemble.bootstrap=none", f"data.num_train={SAMPLES}", "data.num_eval=32"):
        command += ["--set", setting]
    command += ["--runs-dir", str(folder), "--set", "measure.ceiling=false", "--set", "launch.checkpoint_epochs=0"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_until_both_train(folder: Path, workers: int, processes: list[subprocess.Popen[bytes]]) -> None:
    """Returns when trainmark trains and the bare loop is ready to; ends the benchmark if one of them died."""

    def ready() -> bool:
        events = folder.glob("*/events/0000/attempt-1/rank-0.jsonl")
        bare = all((folder / f"ready-{rank}").exists() for rank in range(workers))
        return bare and any('"run_start"' in path.read_text() for path in events)

    while not ready():
        if any(process.poll() is not None for process in processes):
            sys.exit("trainmark or the bare loop ended before it trained")
        time.sleep(0.05)


def tree(process: subprocess.Popen[bytes]) -> list[int]:
    """The process and all its descendants."""
    return [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]


def take_turns(first: list[int], second: list[int], seconds: float) -> Array:
    """Lets the two groups of processes run in turn; the moments of change come back."""
    changes = []
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        for running, waiting in ((first, second), (second, first)):
            for pid in waiting:
                os.kill(pid, signal.SIGSTOP)
            changes.append(time.monotonic())
            for pid in running:
                os.kill(pid, signal.SIGCONT)
            time.sleep(TURN_S)
    return np.array(changes)


def whole_steps(starts: Array, ends: Array, changes: Array) -> tuple[Array, Array]:
    """Durations and middles of the steps that lie within one turn."""
    margin = 0.002  # between a signal being sent and a process being stopped or going on
    turn_of_start = np.searchsorted(changes, starts - margin)
    inside = (turn_of_start == np.searchsorted(changes, ends + margin)) & (turn_of_start > 1)
    inside &= turn_of_start < len(changes)
    return (ends - starts)[inside], ((starts + ends) / 2)[inside]


def bare_steps(folder: Path) -> tuple[Array, Array]:
    """Start and end of every step of the bare loop."""
    epochs = [np.array(line.split(), dtype=float) for line in (folder / "steps-0").read_text().splitlines() if line]
    return np.concatenate([e[:-1] for e in epochs[:-1]]), np.concatenate([e[1:] for e in epochs[:-1]])


def trainmark_steps(folder: Path) -> tuple[Array, Array]:
    """Start and end of every step that trainmark recorded; recording itself is inside them."""
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


def compare(workers: int, seconds: float) -> dict[str, Any]:
    """The ratio of steps per second, trainmark over bare, for members of `workers`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = start_bare(workers, folder)
        run = start_trainmark(workers, folder)
        try:
            wait_until_both_train(folder, workers, [run, *bare])
            (folder / "go").touch()
            changes = take_turns(tree(run), [process.pid for process in bare], seconds)
        finally:
            for process in (run, *bare):  # trainmark's ranks end with it
                process.kill()
                process.wait()
        measured = {
            "trainmark": whole_steps(*trainmark_steps(folder), changes),
            "bare": whole_steps(*bare_steps(folder), changes),
        }
    limits = np.linspace(changes[2], changes[-1], PARTS + 1)
    means = {
        name: np.array([d[(m >= a) & (m < b)].mean() for a, b in pairwise(limits)]) for name, (d, m) in measured.items()
    }
    ratios = means["bare"] / means["trainmark"]
    return {
        "workers": workers,
        "ratio": float(np.median(ratios)),
        "ci95": median_interval(ratios),
        "n": PARTS,
        "ratios": ratios.tolist(),
        "steps": {name: len(durations) for name, (durations, _) in measured.items()},
        "step_ms": {name: 1e3 * float(np.median(durations)) for name, (durations, _) in measured.items()},
    }


def main() -> None:
    """Prints the table; exit code 1 if trainmark costs more than two percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="how long the two take turns, for each P")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    machine = describe_machine()
    print(f"trainmark / bare loop, image-classification tiny, on {machine['cpu']}, {machine['cores']} cores")
    rows = []
    for workers in (1, 2):
        if workers > machine["cores"]:
            print(f"P = {workers}: unavailable: {machine['cores']} core(s)")
            continue
        row = compare(workers, options.seconds)
        rows.append(row)
        low, high = row["ci95"]
        print(
            f"P = {workers}: ratio {row['ratio']:.4f} (95 % interval {low:.4f} – {high:.4f}, n = {row['n']} parts of "
            f"{row['steps']['trainmark']} + {row['steps']['bare']} steps, min – max {min(row['ratios']):.3f} – "
            f"{max(row['ratios']):.3f}; step {row['step_ms']['trainmark']:.2f} / {row['step_ms']['bare']:.2f} ms)"
        )
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    sys.exit(any(row["ratio"] < 0.98 for row in rows))


if __name__ == "__main__":
    main()
