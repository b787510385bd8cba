"""Bagging against data parallelism on the same nodes, with a network of limited bandwidth (AI500's Fig. 9).

On a real Slurm of four nodes (tests/cluster, needs root), whose links are limited by `tc tbf`. On N nodes either N
members of one worker (bagging), or one member of N workers (data parallelism) are trained, turn by turn; same batch
per worker. The nodes share this machine's cores, so the efficiency on N nodes is the throughput over that of
min(N, cores) single nodes.

Usage: python -m benchmarks.bagging_scaling [--nodes N …] [--megabits N] [--rounds N] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.requirements import find_missing

from trainmark.machine.software import describe_machine

SITE = """\
name = "test-cluster"

[[groups]]
prefix = "n"
count = 4
slots = [{ cores = "CORES" }]

[slurm]
poll_s = 2.0
"""
SETTINGS = ("launch.threads=1", "launch.allocation=one", "measure.ceiling=false", "launch.checkpoint_epochs=0")
RECIPE = ("train.epochs=3", "data.num_train=2000", "data.num_eval=100", "ensemble.bootstrap=none")


def throughput(cluster: Cluster, folder: Path, members: int, workers: int) -> float:
    """Total throughput of all members, in samples per second."""
    command = [sys.executable, "-m", "trainmark", "run", "--launcher", "slurm", "--site", str(folder / "site.toml")]
    command += ["--members", str(members), "--workers", str(workers), "--json"]
    # 2000 samples per worker and epoch (weak scaling).
    recipe = [each if "num_train" not in each else f"data.num_train={2000 * workers}" for each in RECIPE]
    for setting in (*SETTINGS, *recipe):
        command += ["--set", setting]
    environment = {**os.environ, **cluster.environment()}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout)["metrics"]["throughput_samples_per_s"]["value"])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--megabits", type=float, default=100.0, help="bandwidth of each node's link, per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if missing := find_missing():
        print(f"unavailable: {missing}")
        return
    machine = describe_machine()
    cores = int(machine["cores"])
    ways = {(1, 1): "one node"}
    for nodes in options.nodes:
        ways |= {(nodes, 1): f"bagging, {nodes} nodes", (1, nodes): f"data parallelism, {nodes} nodes"}
    rates: dict[tuple[int, int], list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name) / "cluster") as cluster:
        folder = Path(name)
        (folder / "site.toml").write_text(SITE.replace("CORES", f"0-{cores - 1}" if cores > 1 else "0"))
        cluster.limit_bandwidth(options.megabits)
        for _ in range(options.rounds):
            for way in ways:
                rates[way].append(throughput(cluster, folder, *way))
    print(f"{options.megabits:g} Mbit/s per node, {options.rounds} rounds, {machine['cpu']}, {cores} cores\n")
    print("| | samples/s, each round | efficiency, median (range) |\n|---|---|---|")
    rows: list[dict[str, Any]] = []
    for (members, workers), what in ways.items():
        ideal = min(members * workers, cores)
        own = rates[members, workers]
        shares = [rate / (ideal * alone) for rate, alone in zip(own, rates[1, 1], strict=True)]
        rows.append({"what": what, "samples_per_s": own, "efficiency": shares})
        shown = f"{statistics.median(shares):.2f} ({min(shares):.2f}–{max(shares):.2f})"
        print(f"| {what} | {', '.join(f'{rate:.0f}' for rate in own)} | {shown} |")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
