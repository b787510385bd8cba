"""Whole runs that are watched: series of utilisation, and bytes within a node and between nodes, against arithmetic."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.runs import ONE_SLOT_SITE, ClusterRun
from tests.conftest import SMALL
from tests.run_events import events_of
from trainmark.machine.network import tcp_bytes_sent

RunSmall = Callable[..., dict[str, Any]]

PERIOD_S = 0.1
WATCHED = ["--set", f"measure.usage_seconds={PERIOD_S}", "--set", "data.num_train=2000"]

needs_count = pytest.mark.skipif(tcp_bytes_sent() is None, reason="this kernel does not count bytes per socket")


def series_of(run: Path, member: int = 0, node: int = 0) -> list[dict[str, Any]]:
    path = run / "events" / f"{member:04d}" / "attempt-1" / f"usage-{node}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def bytes_of_a_worker_and_step(run: Path, workers: int) -> float:
    """What all-reduce must send: 2·(P − 1)/P of the gradients, four bytes a parameter."""
    parameters = next(event["parameters"] for event in events_of(run) if event["kind"] == "model_ready")
    return float(2 * (workers - 1) / workers * 4 * parameters)


def test_two_members_leave_plausible_series_and_the_result_has_their_means(run_small: RunSmall, tmp_path: Path) -> None:
    result = run_small(*WATCHED, "--members", "2")
    run = tmp_path / "runs" / result["run_id"]
    for member in (0, 1):
        start, *samples = series_of(run, member)
        rank = next(event for event in events_of(run, member) if event["kind"] == "rank_started")
        assert (start["kind"], start["ranks"], start["pids"]) == ("usage_start", [0], [rank["pid"]])
        assert start["cores"] == rank["affinity"]["cores_allowed"]
        times = [sample["monotonic_s"] for sample in samples]
        assert times == sorted(times)
        lasted_s = times[-1] - start["monotonic_s"]
        assert 0.5 * lasted_s / PERIOD_S <= len(samples) <= lasted_s / PERIOD_S + 1
        assert sum(sample["over_s"] for sample in samples) == pytest.approx(lasted_s, abs=0.3)
        told = [sample["cpu"] for sample in samples if sample["cpu"] is not None]
        assert all(0 <= share <= 1 for cpu in told for share in cpu.values())
        assert all(sum(cpu.values()) <= 1.001 for cpu in told)
        # Half of what the process had at the end is not much to ask of all samples' largest.
        memory = next(event for event in events_of(run, member) if event["kind"] == "memory")
        most = max(sample["processes"]["resident_bytes"] for sample in samples)
        assert 0.5 * memory["resident_bytes"] <= most <= 1.1 * memory["resident_bytes"]

    cpu = result["metrics"]["cpu_utilisation"]
    assert cpu["status"] == "measured"
    nodes = cpu["detail"]["nodes"]
    assert [node["member"] for node in nodes] == [0, 1]
    assert all((run / node["series"]).exists() for node in nodes)
    # Whoever else computes here: a member that trains uses some of its core, and no more than all of it.
    assert all(0.05 < node["own"] < 1.1 for node in nodes)
    assert all(0.5 < node["total"] <= 1 for node in nodes)
    assert result["metrics"]["gpu_utilisation"]["reason"] == "the member has no accelerator on this node"
    assert result["metrics"]["network_bytes_per_s"]["value"] is None or (
        result["metrics"]["network_bytes_per_s"]["value"] >= 0
    )


@needs_count
def test_two_workers_send_within_their_node_what_all_reduce_must_send(run_small: RunSmall, tmp_path: Path) -> None:
    result = run_small(*WATCHED, "--members", "1", "--workers", "2")
    run = tmp_path / "runs" / result["run_id"]
    must = bytes_of_a_worker_and_step(run, workers=2)
    metrics = result["metrics"]
    within = metrics["communication_intra_node_bytes_per_s"]
    assert within["detail"]["bytes_per_step"] == pytest.approx(2 * must, rel=0.02)  # framing, and the end of an epoch
    assert within["detail"]["bytes_per_step"] >= 2 * must
    assert metrics["communication_inter_node_bytes_per_s"]["value"] == 0
    steps = sum(len(event["step_s"]) for event in events_of(run) if event["kind"] == "steps")
    training_s = sum(event["epoch_s"] for event in events_of(run) if event["kind"] == "epoch_stop")
    assert within["value"] == pytest.approx(2 * must * steps / training_s, rel=0.02)
    start, *samples = series_of(run)
    assert (start["ranks"], len(start["pids"])) == ([0, 1], 2)
    assert max(sample["processes"]["processes"] for sample in samples) == 2
    # The loopback carried it, with headers and acknowledgements on top.
    assert sum(sample["loopback_bytes"] for sample in samples) > 2 * must * steps


@needs_count
def test_workers_on_two_nodes_send_the_same_from_node_to_node(cluster: Cluster, tmp_path: Path) -> None:
    run = ClusterRun(cluster, tmp_path, *SMALL, *WATCHED, "--members", "1", "--workers", "2", site=ONE_SLOT_SITE)
    try:
        code, result, errors = run.end()
    finally:
        run.stop()
    assert code == 0, errors
    must = bytes_of_a_worker_and_step(run.folder, workers=2)
    between = result["metrics"]["communication_inter_node_bytes_per_s"]
    assert between["detail"]["nodes_per_member"] == 2
    assert between["detail"]["bytes_per_step"] == pytest.approx(2 * must, rel=0.02)
    assert result["metrics"]["communication_intra_node_bytes_per_s"]["value"] == 0
    steps = sum(len(event["step_s"]) for event in events_of(run.folder) if event["kind"] == "steps")
    for node in (0, 1):
        start, *samples = series_of(run.folder, node=node)
        assert (start["ranks"], start["interfaces"]) == ([node], ["eth0"])
        sent, received = (sum(sample["network"]["eth0"][way] for sample in samples) for way in ("sent", "received"))
        # Each node's cable carries at least its worker's bytes each way; headers, evaluations and Slurm add to it.
        assert sent > must * steps
        assert received > must * steps
