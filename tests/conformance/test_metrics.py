"""Every metric: its unit and direction are stated, and it says why when there is nothing to measure."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.written_events import (
    with_counters,
    with_facts,
    with_inference,
    with_staging,
    with_step_memory,
    with_usage,
    written_member,
    written_pair,
    written_predictions,
    written_run,
    written_sample,
)
from trainmark.collect.compute import compute_metric
from trainmark.spec.metrics import MetricRow, metric_rows
from trainmark.spec.registries import METRICS

# What only some runs have is measured in the second one.
SENT = {"sent_bytes": 4000, "sent_intra_node_bytes": 3000, "sent_inter_node_bytes": 1000}
FACTS = {"waited_s": 1.0, **SENT, "bubble_share": 0.2, "ideal_bubble_share": 0.1, "staleness": [0, 1]}
STAGED = {"samples": 60, "bytes": 6000, "staging_s": 2.0, "reused": False}
ACCELERATOR = {"utilisation": 0.9, "memory_bytes": 1000, "power_w": 300.0}
SAMPLE = written_sample(102.0, accelerators=[ACCELERATOR])
SEVEN_CLASSES = written_predictions() | {"eval_predictions": np.eye(7, dtype=np.float32)[:2]}
GOOD_RUNS = (
    written_run(written_member(0), written_member(1)),
    written_run(
        with_usage(written_pair(0, FACTS, FACTS), SAMPLE, accelerators=["GPU-1"]),
        train={"parallel": "gpipe", "micro_batches": 5},
    ),
    written_run(with_inference(written_member(0), {10: [0.1] * 20, 1: [0.01] * 100}), measure={"inference": True}),
    written_run(with_staging(written_member(0), STAGED), launch={"stage": "local"}),
    written_run(written_member(0, predictions=SEVEN_CLASSES)),
    written_run(with_step_memory(written_member(0), [100] * 40)),
    written_run(with_counters(with_facts(written_member(0), {"model_ready": {"input_shape": [3, 32, 32]}}))),
)


@pytest.mark.parametrize("name", list(METRICS))
def test_it_has_a_value_of_its_unit_on_a_good_run(name: str) -> None:
    row: MetricRow = METRICS.load(name)
    found = [compute_metric(name, run) for run in GOOD_RUNS]
    metric = next((each for each in found if each.value is not None), found[0])
    assert (metric.unit, metric.better) == (row.unit, row.better)
    assert metric.status in ("measured", "derived")
    assert metric.value is not None
    assert math.isfinite(metric.value)
    assert metric.n > 0


def test_its_row_names_it_and_says_where_it_is_shown() -> None:
    rows = metric_rows()
    assert set(rows) == set(METRICS)
    for name, row in rows.items():
        assert row.name == name
        assert row.label and row.description == METRICS.describe(name)
        assert set(row.builds_on) <= set(rows) - {name}
    assert len({row.label for row in rows.values()}) == len(rows)


@pytest.mark.parametrize("name", list(METRICS))
def test_it_says_why_it_is_unavailable_when_no_member_finished(name: str) -> None:
    silent = replace(written_member(0, state="failed"), events=())
    metric = compute_metric(name, written_run(silent))
    assert (metric.status, metric.value) == ("unavailable", None)
    assert metric.reason
