"""Whole runs, as a user starts them: real processes, real training, real files."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL, Command
from tests.run_events import events_of, losses_of
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Result
from trainmark.spec.units import show_cores

TO_TARGET = ("epochs_to_target", "time_to_target_s", "flop_to_target")  # which so few samples do not teach

RunSmall = Callable[..., dict[str, Any]]


COUNTERS = ("instructions_per_megapixel", "instructions_per_cycle", "cache_misses_per_1000_instructions")
INFERENCE = ("inference_samples_per_s", "inference_latency_p50_s", "inference_latency_p99_s")


def run_dir(tmp_path: Path, result: dict[str, Any]) -> Path:
    return tmp_path / "runs" / result["run_id"]


def unavailable_in(record: Result) -> set[str]:
    """The metrics without a value; a machine may lack a network interface or counters, and others may compute on it."""
    found = {name: metric.reason for name, metric in record.metrics.items() if metric.status == "unavailable"}
    disturbed = {name for name, reason in found.items() if str(reason).startswith("other processes took")}
    assert disturbed <= {"ceiling_flops", "flops_share_of_ceiling"}
    return found.keys() - {"network_bytes_per_s", *COUNTERS} - disturbed


def test_two_members_of_one_worker_give_a_valid_result(trainmark: Command, tmp_path: Path) -> None:
    done = trainmark("run", *SMALL, "--members", "2", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    record = Result.model_validate(result)
    assert record.state == "complete"
    assert set(record.metrics) == set(METRICS)
    assert unavailable_in(record) == {
        *("communication_share", "communication_bytes_per_step", "bubble_share", "staleness_steps", "staging_time_s"),
        *("communication_intra_node_bytes_per_s", "communication_inter_node_bytes_per_s", "gpu_utilisation"),
        *("load_balance", "communication_efficiency", "parallel_efficiency", "step_memory_bytes"),
        *TO_TARGET,
        *INFERENCE,
    }
    assert [member.state for member in record.members] == ["finished", "finished"]
    # Planned on disjoint cores, and seen from within each rank to run there with one thread a core.
    planned = [{show_cores(rank.cores) for rank in job.ranks} for job in record.plan.jobs]
    assert planned[0].isdisjoint(planned[1])
    for member in (0, 1):
        affinity = events_of(run_dir(tmp_path, result), member)[0]["affinity"]
        assert affinity["verified"]
        assert {affinity["cores_allowed"]} == planned[member]


def test_one_member_of_two_workers_gives_a_valid_result(run_small: RunSmall, tmp_path: Path) -> None:
    result = run_small("--members", "1", "--workers", "2")
    record = Result.model_validate(result)
    assert (record.state, record.plan.system_scale) == ("complete", 2)
    assert unavailable_in(record) == {
        *("bubble_share", "staleness_steps", "staging_time_s", "gpu_utilisation", "step_memory_bytes"),
        *TO_TARGET,
        *INFERENCE,
    }
    # Both workers take half of each global batch: 64 samples a step.
    epoch = [
        next(e for e in events_of(run_dir(tmp_path, result), rank=rank) if e["kind"] == "epoch_stop") for rank in (0, 1)
    ]
    assert epoch[0]["samples"] == epoch[1]["samples"] == epoch[0]["next_step"] * 64
    for rank in (0, 1):
        kinds = [e.get("phase", e["kind"]) for e in events_of(run_dir(tmp_path, result), rank=rank)]
        marks = [kind for kind in kinds if kind in ("before", "run_start", "run_stop", "after", "finished")]
        assert marks == ["before", "run_start", "run_stop", "after", "finished"]
    assert record.metrics["flops"].detail is not None
    assert record.metrics["flops"].detail["samples"] == epoch[0]["samples"]


def test_the_run_folder_mirrors_the_flow_and_a_worker_alone_has_all_cores(run_small: RunSmall, tmp_path: Path) -> None:
    # One worker on a machine of two slots: it gets the cores of both, and runs a thread on each.
    result = run_small("--members", "1", "--set", "launch.threads=2")
    assert (result["plan"]["system_scale"], result["plan"]["idle_slots"], result["plan"]["cores_used"]) == (1, 0, 2)
    assert not [warning for warning in result["warnings"] if "idle" in warning]
    folder = run_dir(tmp_path, result)
    affinity = events_of(folder, 0)[0]["affinity"]
    assert (affinity["verified"], affinity["threads_running"]) == (True, 2)
    for name in (
        *("config.toml", "plan.json", "origin.json", "bootstrap/0000.npy", "bootstrap/audit.json", "result.json"),
        *(
            "jobs/0000/job.json",
            "jobs/0000/job.sh",
            "jobs/0000/attempt-1/done.json",
            "jobs/0000/attempt-1/predictions.npz",
        ),
        *("jobs/0000/attempt-1/exit.json", "jobs/0000/attempt-1/rank-0.log", "events/0000/attempt-1/rank-0.jsonl"),
        "events/0000/attempt-1/usage-0.jsonl",
    ):
        assert (folder / name).exists(), name
    assert not (folder / "launcher.json").exists()


def test_a_rank_runs_with_the_inter_op_threads_that_were_asked_for(trainmark: Command, tmp_path: Path) -> None:
    done = trainmark("run", *SMALL, "--members", "1", "--json", "--set", "launch.interop_threads=3")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["config"]["launch"]["interop_threads"], result["engine"]["interop_threads"]) == (3, 3)
    affinity = events_of(run_dir(tmp_path, result))[0]["affinity"]
    assert (affinity["interop_threads_asked"], affinity["interop_threads_running"]) == (3, 3)
    assert affinity["verified"] and not any("should run" in warning for warning in result["warnings"])


def test_the_same_seed_gives_identical_losses_and_quality(run_small: RunSmall, tmp_path: Path) -> None:
    first, again, other = run_small(), run_small(), run_small("--seed", "2")
    for member in (0, 1):
        losses = losses_of(run_dir(tmp_path, first), member)
        assert len(losses) >= 4
        assert losses == losses_of(run_dir(tmp_path, again), member)
        assert losses != losses_of(run_dir(tmp_path, other), member)
    for name in ("quality_ensemble", "quality_member_mean", "quality_out_of_bag"):
        assert first["metrics"][name]["value"] == again["metrics"][name]["value"]


def test_a_stored_config_repeats_the_run(run_small: RunSmall, warm_trainmark: Command, tmp_path: Path) -> None:
    first = run_small("--seed", "5", "--set", "ensemble.bootstrap=multinomial", "--set", "train.epochs=2")
    done = warm_trainmark("run", "--config", f"runs/{first['run_id']}/config.toml", "--json")
    again = json.loads(done.stdout)
    assert again["config"] == first["config"]
    assert again["provenance"]["config_hash"] == first["provenance"]["config_hash"]
    assert losses_of(run_dir(tmp_path, again)) == losses_of(run_dir(tmp_path, first))


def test_members_queue_when_they_do_not_fit_and_start_together_when_they_do(
    run_small: RunSmall, tmp_path: Path
) -> None:
    result = run_small("--members", "3")
    folder = run_dir(tmp_path, result)
    assert (result["plan"]["lanes"], result["plan"]["waves"]) == (2, 2)
    assert [member["state"] for member in result["members"]] == ["finished"] * 3
    started = [float((folder / f"jobs/000{member}/attempt-1/go").read_text().split()[0]) for member in range(3)]
    assert started[0] == started[1] < started[2]
    stops = [next(e["wall_s"] for e in events_of(folder, member) if e["kind"] == "finished") for member in range(3)]
    assert started[2] > stops[0]  # member 2 waited for the lane of member 0
    # Before its first member and after its last one each lane measures its ceiling, side by side if it can.
    phases = [
        [event["phase"] for event in events_of(folder, member) if event["kind"] == "ceiling"] for member in range(3)
    ]
    assert (phases[0], phases[1][0]) == (["before"], "before")
    assert set(phases[1][1:]) | set(phases[2]) <= {"after"}
    assert (folder / "jobs/0001/attempt-1/trained").exists() and not (folder / "jobs/0000/attempt-1/trained").exists()
    # Three members on two lanes are never counted as three at a time.
    assert result["metrics"]["throughput_samples_per_s"]["detail"]["members_at_a_time"] <= 2


def test_the_kept_script_trains_a_member_by_hand(run_small: RunSmall, tmp_path: Path) -> None:
    result = run_small("--members", "1")
    assert any(
        warning.startswith("1 of 2 worker slots stays idle: workers have 1 of 2 cores")
        for warning in result["warnings"]
    )
    folder = run_dir(tmp_path, result)
    script = (folder / "jobs/0000/job.sh").read_text()
    assert "--attempt 1" in script
    again = subprocess.run(["bash", folder / "jobs/0000/job.sh"], capture_output=True, text=True)
    assert again.returncode == 1
    assert "this attempt has already run" in again.stderr
    by_hand = subprocess.run(
        ["bash", "-c", script.replace("--attempt 1", "--attempt 2")], capture_output=True, text=True
    )
    assert by_hand.returncode == 0, by_hand.stderr
    assert (folder / "jobs/0000/attempt-2/done.json").exists()


def test_a_diverging_loss_ends_the_member_with_advice(warm_trainmark: Command) -> None:
    done = warm_trainmark(
        "run", *SMALL, "--members", "1", "--set", "train.learning_rate=1e30", "--set", "train.epochs=2"
    )
    assert done.returncode == 1
    assert "The loss became" in done.stderr
    assert "Start a new run with a lower --set train.learning_rate" in done.stderr
    assert "trainmark resume" in done.stderr


def test_metrics_that_are_switched_off_are_unavailable_with_the_reason(run_small: RunSmall) -> None:
    result = run_small("--members", "1", "--set", "measure.ceiling=false", "--set", "ensemble.bootstrap=none")
    for name, reason in (
        ("ceiling_flops", "not measured: measure.ceiling is false"),
        ("flops_share_of_ceiling", "not measured: measure.ceiling is false"),
        ("quality_out_of_bag", "without a bootstrap every member is trained on every sample"),
    ):
        assert result["metrics"][name]["status"] == "unavailable"
        assert result["metrics"][name]["reason"] == reason
    assert result["metrics"]["throughput_samples_per_s"]["status"] == "measured"


@pytest.mark.slow
def test_the_ensemble_of_eight_beats_its_mean_member_by_two_points(warm_trainmark: Command) -> None:
    settings = ("--set", "train.epochs=3", "--set", "measure.ceiling=false")
    done = warm_trainmark("run", "--members", "8", *settings, "--json", timeout=600)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    ensemble, mean = metrics["quality_ensemble"]["value"], metrics["quality_member_mean"]["value"]
    assert ensemble >= mean + 0.02
    assert 0.6 < mean < 0.95  # learned something, and clearly below 1
    assert metrics["quality_out_of_bag"]["value"] == pytest.approx(ensemble, abs=0.06)
