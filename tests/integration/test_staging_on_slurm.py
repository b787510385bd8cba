"""Staging on a real Slurm of several nodes: each node has a copy on its own storage, made by one of its workers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.run_events import events_of, losses_of

FEW = ["--set", "data.num_train=60", "--set", "data.num_eval=20", "--set", "data.num_classes=5"]
SHORT = [
    *("--set", "model=resnet-tiny", "--set", "dataset=imagenet", "--set", "data.image_size=32", *FEW),
    *("--set", "train.augmentation=crop", "--set", "train.epochs=1", "--set", "train.batch_size=4"),
    *("--set", "measure.ceiling=false", "--launcher", "slurm", "--json"),
]

# Two workers on each of two nodes.
SITE = """
name = "test-cluster"

[[groups]]
prefix = "n"
count = 2
slots = [{{ cores = "0" }}, {{ cores = "1" }}]
shared_cores = true
local_storage = "{local_storage}"

[slurm]
poll_s = 1.0
"""


def run(cluster: Cluster, folder: Path, *arguments: str) -> tuple[dict[str, Any], Path]:
    site = folder / "site.toml"
    site.write_text(SITE.format(local_storage=cluster.local_storage))
    done = subprocess.run(
        [sys.executable, "-m", "trainmark", "run", *SHORT, "--site", str(site), *arguments],
        cwd=folder,
        env={**os.environ, **cluster.environment(), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result, folder / "runs" / str(result["run_id"])


def packs_on(cluster: Cluster, node: str) -> list[str]:
    listed = cluster.run_on(node, "find", str(cluster.local_storage), "-name", "complete.json")
    return sorted(listed.split())


@pytest.mark.slow
def test_every_node_of_a_member_has_its_own_copy_and_losses_are_the_same_as_without(cluster: Cluster) -> None:
    folder = cluster.folder / "staging"  # on storage that all nodes share
    folder.mkdir()
    spread = ("--members", "1", "--workers", "4")
    _, plain = run(cluster, folder, *spread)
    result, staged = run(cluster, folder, *spread, "--set", "launch.stage=local")
    stops = {
        rank: [event for event in events_of(staged, rank=rank) if event["kind"] == "staging_stop"] for rank in range(4)
    }
    assert [len(stops[rank]) for rank in range(4)] == [1, 0, 1, 0]  # the first worker of each node
    hosts = {rank: events_of(staged, rank=rank)[0]["host"] for rank in range(4)}
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    for first in (0, 2):
        (stop,) = stops[first]
        assert not stop["reused"] and stop["folder"].startswith(str(cluster.local_storage))
        assert packs_on(cluster, hosts[first]) == [f"{stop['folder']}/complete.json"]
    for rank in range(4):
        assert losses_of(staged, rank=rank) == losses_of(plain, rank=rank) != []
    metric = result["metrics"]["staging_time_s"]
    assert metric["n"] == 2 and metric["detail"]["copied_bytes"] == 2 * stops[0][0]["bytes"]
    assert metric["value"] == max(stops[rank][0]["staging_s"] for rank in (0, 2))
    assert list(cluster.local_storage.iterdir()) == []  # here, where no node has mounted its own
