"""The overhead of the launcher `slurm` per member: submission, queue polling and collection, as ensembles grow.

Members train nothing (trivial_worker.py), on a real Slurm of four nodes (tests/cluster, needs root). The calls of
Slurm's programs are counted by wrappers in front of them on the PATH.

Usage: python -m benchmarks.slurm_overhead [--members N …] [--json FILE]
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.requirements import find_missing

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel")


def write_site(folder: Path) -> Path:
    """The test cluster, with a Python that trains nothing."""
    python = folder / "trivial-python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/benchmarks/trivial_worker.py" "$@"\n')
    python.chmod(0o755)
    site = folder / "site.toml"
    site.write_text(f'python = "{python}"\n' + (ROOT / "tests/cluster/site.toml").read_text())
    return site


def write_counters(folder: Path) -> Path:
    """A folder of wrappers that count calls to Slurm's programs."""
    counters = folder / "bin"
    counters.mkdir()
    for program in PROGRAMS:
        real = shutil.which(program)
        if real is not None:
            (counters / program).write_text(f'#!/bin/sh\necho {program} >>"$CALLS"\nexec {real} "$@"\n')
            (counters / program).chmod(0o755)
    return counters


def measure(cluster: Cluster, folder: Path, members: int) -> dict[str, Any]:
    """Measures one run of `members` members."""
    here = folder / str(members)
    here.mkdir()
    calls = here / "calls"
    environment = {**os.environ, **cluster.environment(), "CALLS": str(calls)}
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    command = [sys.executable, "-m", "trainmark", "run", "--launcher", "slurm", "--site", str(folder / "site.toml")]
    command += ["--members", str(members), "--workers", "1", "--set", "train.epochs=1", "--set", "data.num_train=400"]
    command += ["--set", "measure.ceiling=false", "--json"]
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    ended_s, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    (run,) = (here / "runs").glob("*/plan.json")
    finished_s = [path.stat().st_mtime for path in run.parent.glob("jobs/*/attempt-1/done.json")]
    submitted_s = max(path.stat().st_mtime for path in run.parent.glob("submissions/*.json"))
    count = Counter(calls.read_text().split())
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "members": members,
        "prepare_and_submit_s": submitted_s - began_s,
        "whole_s": ended_s - began_s,
        "after_last_member_s": ended_s - max(finished_s),
        "submitter_cpu_s": cpu_s,
        "calls": dict(count),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if missing := find_missing():
        print(f"unavailable: {missing}")
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder) / "cluster") as cluster:
        write_site(Path(folder))
        write_counters(Path(folder))
        for members in options.members:
            rows.append(measure(cluster, Path(folder), members))
    print("| members | submitted after s | submitter's CPU, ms/member | after the last member s | whole s | calls |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        calls = ", ".join(f"{count} {name}" for name, count in sorted(row["calls"].items()))
        cpu_ms = 1000 * row["submitter_cpu_s"] / row["members"]
        times = f"{cpu_ms:.0f} | {row['after_last_member_s']:.1f} | {row['whole_s']:.0f}"
        print(f"| {row['members']} | {row['prepare_and_submit_s']:.1f} | {times} | {calls} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
