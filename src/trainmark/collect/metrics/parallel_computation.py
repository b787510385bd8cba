"""APC, the amount of parallel computation of one iteration: AI500's measure of how much work a system gets at once."""

import numpy as np

from trainmark.collect.measured import Measured
from trainmark.collect.metrics.flops import CONVENTION
from trainmark.spec.metrics import Figure, MetricRow, plain_note
from trainmark.spec.result import Metric
from trainmark.spec.units import show_value


def parallel_computation(flop_per_sample: float, batch: float, members: int) -> float:
    """Eq. 3 and 4: training FLOPs of one iteration of all members, whose global batches are alike."""
    return members * batch * flop_per_sample


def _apc(measured: Measured, flops: Metric) -> Figure | str:
    if flops.value is None:
        return flops.reason or ""
    assert flops.detail is not None
    per_sample: dict[str, float] = flops.detail["training_flop_per_sample"]
    plan = measured.plan
    batch = _samples_per_step(measured)
    values = {name: parallel_computation(flop, batch, plan.members) for name, flop in per_sample.items()}
    nodes = len({node for job in plan.jobs for node in job.nodes})
    return Figure(
        value=values[CONVENTION],
        n=len(measured.finished),
        convention=CONVENTION,
        detail={
            "by_convention": values,
            "members": plan.members,
            "global_batch": batch,
            "training_flop_per_sample": per_sample,
            "per_member": values[CONVENTION] / plan.members,
            "nodes": nodes,
            "per_node": values[CONVENTION] / nodes,
        },
    )


def _samples_per_step(measured: Measured) -> float:
    """The global batch; where steps are unlike, its mean."""
    return float(np.concatenate([measured.samples_of(member) for member in measured.finished]).mean())


def _note_on_nodes(metric: Metric) -> str:
    if not metric.detail or "per_node" not in metric.detail:
        return plain_note(metric)
    return f"{metric.convention} convention; per node: {show_value(metric.detail['per_node'], 'FLOP')}"


APC = MetricRow(
    "apc_flop",
    "FLOP",
    "neither",
    "APC (Eq. 3)",
    description="Amount of parallel computation (Eq. 3 and 4): training FLOPs of one iteration of all planned members.",
    compute=_apc,
    needs="epochs",  # of which a detector's proposals are counted
    builds_on=("flops",),
    status="derived",
    keeps_samples=False,
    note=_note_on_nodes,
)
