"""Runs that also measure the trained models: one and two workers, and modes in which no rank has the whole model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.run_events import events_of

METRICS = ("inference_samples_per_s", "inference_latency_p50_s", "inference_latency_p99_s")
MEASURED = [
    *("--set", "measure.inference=true", "--set", "measure.inference_seconds=2", "--set", "measure.ceiling=false"),
    *("--members", "1", "--set", "train.batch_size=16"),
]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_trained_member_is_measured_on_all_its_ranks(
    workers: int, run_small: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    result = run_small(*MEASURED, "--workers", str(workers))
    assert {name: result["metrics"][name]["reason"] for name in METRICS} == dict.fromkeys(METRICS)
    rate, p50, p99 = (result["metrics"][name]["value"] for name in METRICS)
    assert rate > 0 and 0 < p50 < p99
    for rank in range(workers):
        events = events_of(tmp_path / "runs" / result["run_id"], rank=rank)
        kinds = [event["kind"] for event in events]
        wanted = ("run_stop", "memory", "inference_start", "inference", "finished")
        assert [kind for kind in kinds if kind in wanted] == [
            *("run_stop", "memory", "inference_start", "inference", "inference_start", "inference", "finished"),
        ]
        assert [event["batch_size"] for event in events if event["kind"] == "inference"] == [16, 1]


def test_where_no_rank_has_the_whole_model_inference_is_unavailable(run_small: Callable[..., dict[str, Any]]) -> None:
    result = run_small(*MEASURED, "--workers", "2", "--set", "train.parallel=sharded")
    for name in METRICS:
        reason = result["metrics"][name]["reason"]
        assert reason == "train.parallel=sharded splits the model: no rank holds all of it"
