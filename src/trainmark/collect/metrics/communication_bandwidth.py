"""The bytes per second of training that a member's workers send each other, within nodes and between them."""

from typing import NamedTuple

import numpy as np

from trainmark.collect.measured import Measured, Member
from trainmark.collect.reasons import Sent, no_bytes, no_exchange
from trainmark.collect.statistics import mean_interval
from trainmark.spec.events import EpochStop
from trainmark.spec.result import Better, Metric, unavailable

UNIT = "B/s"
BETTER: Better = "neither"
NEEDS = "epochs"


class Exchange(NamedTuple):
    """What one member sent, its workers added up."""

    member: int
    bytes_per_step: float
    bytes_per_s: float


def within_nodes(measured: Measured) -> Metric:
    """The bytes per second of training that a member's workers send to others of their own node."""
    return _bandwidth(measured, lambda stop: stop.sent_intra_node_bytes)


def between_nodes(measured: Measured) -> Metric:
    """The bytes per second of training that a member's workers send to other nodes."""
    return _bandwidth(measured, lambda stop: stop.sent_inter_node_bytes)


def _bandwidth(measured: Measured, sent: Sent) -> Metric:
    """The metric of these bytes of every worker's epochs."""
    if reason := no_exchange(measured) or no_bytes(measured, sent):
        return unavailable(UNIT, BETTER, reason)
    found = [_exchange_of(member, sent) for member in measured.finished]
    rates = np.array([each.bytes_per_s for each in found])
    return Metric(
        value=float(rates.mean()),
        unit=UNIT,
        better=BETTER,
        status="measured",
        ci95=mean_interval(rates),
        n=len(found),
        samples_ref=measured.samples_ref,
        detail={
            "bytes_per_step": float(np.mean([each.bytes_per_step for each in found])),
            "nodes_per_member": len({rank.node for rank in measured.finished[0].job.ranks}),
            "members": [each._asdict() for each in found],
        },
    )


def _exchange_of(member: Member, sent: Sent) -> Exchange:
    total = sum(sent(stop) or 0 for stop in member.of_all_ranks(EpochStop))
    training_s = sum(epoch.epoch_s for epoch in member.epochs)
    return Exchange(member.job.member, total / len(member.step_s), total / training_s)
