"""What the harness costs: steps per second of `trainmark run` over those of a bare loop, in turns on the same cores.

Both are whole, real process trees; see benchmarks/turns.py for how they alternate.

Usage: python benchmarks/overhead.py [--seconds S] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.collect.statistics import median_interval
from trainmark.launch.commands import rank_environment
from trainmark.machine.local_site import local_site
from trainmark.machine.software import describe_machine
from trainmark.machine.topology import read_topology
from trainmark.plan.make import default_allocator
from trainmark.spec.config import LaunchConfig
from trainmark.spec.plan import Rank
from turns import (
    Array,
    Contestant,
    means_by_part,
    start_trainmark,
    take_turns,
    trainmark_steps,
    wait_until_training,
    whole_steps,
)

TURN_S = 0.25
SAMPLES = 2048
PARTS = 20  # groups of turns, with one ratio each
BARE = Path(__file__).with_name("bare_loop.py")


def start_bare(workers: int, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Starts the hand-written loop, which trains when the file `go` appears."""
    processes = []
    launch = LaunchConfig(allocator=default_allocator(local_site()))
    for rank, core in enumerate(read_topology().cores[:workers]):
        command = [sys.executable, str(BARE), "--rank", str(rank), "--workers", str(workers), "--core", str(core)]
        command += ["--samples", str(SAMPLES), "--folder", str(folder)]
        given = rank_environment(launch, Rank(rank, "", rank, (core,), None))
        environment = {**os.environ, **given, "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
        processes.append(subprocess.Popen(command, env=environment))
    return processes


def wait_until_ready(folder: Path, workers: int, processes: list[subprocess.Popen[bytes]]) -> None:
    """Returns when the bare loop is ready to train; ends the benchmark if it died."""
    while not all((folder / f"ready-{rank}").exists() for rank in range(workers)):
        if any(process.poll() is not None for process in processes):
            sys.exit("the bare loop ended before training")
        time.sleep(0.05)


def bare_steps(folder: Path) -> tuple[Array, Array]:
    """Start and end of every step of the bare loop."""
    epochs = [np.array(line.split(), dtype=float) for line in (folder / "steps-0").read_text().splitlines() if line]
    return np.concatenate([e[:-1] for e in epochs[:-1]]), np.concatenate([e[1:] for e in epochs[:-1]])


def compare(workers: int, seconds: float) -> dict[str, Any]:
    """The ratio of steps per second, trainmark over bare, for members of `workers`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = start_bare(workers, folder)
        bare = Contestant("bare", processes, folder, [process.pid for process in processes])
        sizes = ["--set", f"data.num_train={SAMPLES}", "--set", "data.num_eval=32"]
        sizes += ["--set", "launch.threads=1"]  # a core per worker, as the bare loop has; else one worker gets all
        run = start_trainmark("trainmark", folder / "runs", ["--workers", str(workers), *sizes])
        try:
            wait_until_ready(folder, workers, processes)
            if reason := wait_until_training(run):
                sys.exit(f"trainmark ended before training: {reason}")
            (folder / "go").touch()
            changes = take_turns([run, bare], TURN_S, seconds)
        finally:
            run.end()
            bare.end()
        measured = {
            "trainmark": whole_steps(trainmark_steps(run.folder), changes),
            "bare": whole_steps(bare_steps(folder), changes),
        }
    means = {name: means_by_part(steps, changes, PARTS) for name, steps in measured.items()}
    ratios = means["bare"] / means["trainmark"]
    ratios = ratios[np.isfinite(ratios)]  # a part without a whole step of either has none
    return {
        "workers": workers,
        "ratio": float(np.median(ratios)),
        "ci95": median_interval(ratios),
        "n": len(ratios),
        "ratios": ratios.tolist(),
        "steps": {name: len(durations) for name, (durations, _) in measured.items()},
        "step_ms": {name: 1e3 * float(np.median(durations)) for name, (durations, _) in measured.items()},
    }


def main() -> None:
    """Prints the table; exit code 1 if the overhead exceeds two percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="total time of the alternating runs, for each P")
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
