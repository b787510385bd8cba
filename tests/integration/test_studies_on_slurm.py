"""A study on a real Slurm cluster of four nodes: its runs are handed in together, and outlive the study itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.runs import ONE_SLOT_SITE
from tests.waiting import TIMEOUT_S, wait_until

STUDY = [
    *("study", "bagging-or-data-parallel", "--launcher", "slurm", "--site", str(ONE_SLOT_SITE)),
    *("--system-scale", "1,2", "--repeats", "1", "--link", "veth pair"),
    *("--set", "train.steps=30", "--set", "data.num_train=1000", "--set", "launch.threads=1"),
]


def begin(cluster: Cluster, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainmark", *arguments],
        cwd=folder,
        env={**os.environ, **cluster.environment(), "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "160"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def submissions_of(run: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted((run / "submissions").glob("*.json"))]


def test_a_killed_study_leaves_its_jobs_in_the_queue_and_resume_collects_them_without_a_second_try(
    cluster: Cluster, tmp_path: Path
) -> None:
    process = begin(cluster, tmp_path, *STUDY)
    wait_until(lambda: len([*(tmp_path / "runs").glob("*/submissions/0001.json")]) == 4)
    # Six workers on four nodes: some run, others wait, all were handed in.
    wait_until(lambda: "RUNNING" in cluster.run("squeue", "--noheader", "--format=%T"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(cluster.run("squeue", "--noheader", "--format=%i").split()) >= 2
    resumed = begin(cluster, tmp_path, "study", "resume", "latest", "--json")
    output, errors = resumed.communicate(timeout=TIMEOUT_S)
    assert resumed.returncode == 0, errors
    table = json.loads(output)["table"]
    assert [(row["method"], row["system_scale"], row["link"], row["n"]) for row in table["rows"]] == [
        (method, scale, "veth pair", 1) for method in ("bagging", "data-parallel") for scale in (1, 2)
    ]
    assert [row["efficiency"] for row in table["rows"] if row["system_scale"] == 1] == [1.0, 1.0]
    assert all(row["efficiency"] > 0 for row in table["rows"])
    (study,) = (tmp_path / "runs" / "studies").iterdir()
    assert (study / "bagging-or-data-parallel.svg").exists()
    runs = [tmp_path / "runs" / run["run_id"] for run in json.loads((study / "study.json").read_text())["runs"]]
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    assert all(member["attempts"] == 1 for result in results for member in result["members"])
    assert [len(submissions_of(run)) for run in runs] == [1] * 4
    # Both members of the ensemble were started by one signal, although runs waited for nodes.
    (ensemble,) = (run for run, result in zip(runs, results, strict=True) if result["plan"]["members"] == 2)
    started = [(ensemble / f"jobs/{member:04d}/attempt-1/go").read_text() for member in (0, 1)]
    assert started[0] == started[1]
