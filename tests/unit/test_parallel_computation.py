"""APC, the amount of parallel computation of one iteration: AI500's example, and of runs written out by hand."""

import math
from dataclasses import replace

import pytest

from tests.unit.written_events import written_member, written_pair, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured
from trainmark.collect.metrics.parallel_computation import parallel_computation
from trainmark.report.result_table import note_of
from trainmark.spec.metrics import metric_rows
from trainmark.spec.plan import Job


def on_nodes(measured: Measured, *nodes: str) -> Measured:
    """The run, with each rank of all jobs on the node of its turn."""
    names = iter(nodes)
    jobs = tuple(
        Job(job.member, job.lane, tuple(rank._replace(node=next(names)) for rank in job.ranks))
        for job in measured.plan.jobs
    )
    return replace(measured, plan=replace(measured.plan, jobs=jobs))


def test_ai500s_example_is_reproduced() -> None:
    # §2.2.1: ResNet-50 of 23.0 GFLOP a sample at batch 512; on 4,608 nodes "2.55" GFLOP a node, cut after two digits.
    apc = parallel_computation(23.0e9, 512, members=1)
    assert apc == 11_776e9
    assert apc / 4_608 / 1e9 == pytest.approx(2.5556, abs=5e-5)
    assert math.floor(apc / 4_608 / 1e7) / 100 == 2.55


def test_every_member_adds_its_global_batch() -> None:
    # 3 members × 2 workers × batch 10 × 4 accumulated passes × 100 FLOP; ai500 counts 90 FLOP a sample.
    pairs = [written_pair(member, {}, {}) for member in range(3)]
    measured = on_nodes(written_run(*pairs, train={"accumulation": 4}), "a", "a", "b", "b", "b", "b")
    found = compute_metric("apc_flop", measured)
    assert (found.value, found.unit, found.better) == (24_000, "FLOP", "neither")
    assert (found.status, found.convention) == ("derived", "exact")
    assert found.detail == {
        "by_convention": {"exact": 24_000, "ai500": 21_600},
        "members": 3,
        "global_batch": 80,
        "training_flop_per_sample": {"exact": 100, "ai500": 90},
        "per_member": 8_000,
        "nodes": 2,
        "per_node": 12_000,
    }
    assert note_of(found, metric_rows()["apc_flop"].note) == "exact convention; per node: 12 kFLOP"


def test_the_stages_of_a_pipeline_share_one_batch() -> None:
    measured = written_run(written_pair(0, {}, {}), train={"parallel": "gpipe", "micro_batches": 5})
    assert compute_metric("apc_flop", measured).value == 10 * 100


def test_planned_members_count_also_if_one_failed() -> None:
    measured = written_run(written_member(0), written_member(1, state="failed"))
    found = compute_metric("apc_flop", measured)
    assert (found.value, found.n) == (2 * 10 * 100, 1)
