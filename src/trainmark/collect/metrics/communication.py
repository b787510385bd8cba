"""Communication between a member's workers: bytes, waiting, pipeline bubble, staleness."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured, Member
from trainmark.collect.statistics import mean_interval
from trainmark.spec.events import EpochStop
from trainmark.spec.layout import SPLITTING
from trainmark.spec.metrics import Figure, MetricRow

ONE_WORKER = "not applicable: one worker"
UNSEEN_BYTES = "the workers do not communicate over TCP sockets that can be counted"
BYTES_NOT_SPLIT = "recorded by a version that did not split bytes into intra- and inter-node traffic"
NOT_SEPARATED = "waiting cannot be separated from computation"

Sent = Callable[[EpochStop], int | None]  # bytes of one kind that a worker sent in an epoch


def _epochs_of(measured: Measured) -> list[EpochStop]:
    """Returns the epochs of all workers of all members."""
    return [stop for member in measured.finished for stop in member.of_all_ranks(EpochStop)]


def why_no_exchange(measured: Measured) -> str | None:
    """Returns why workers do not communicate; None if they do."""
    if not measured.finished:
        return NO_MEMBER
    return ONE_WORKER if measured.plan.workers_per_member == 1 else None


def _no_bytes(measured: Measured, sent: Sent) -> str | None:
    """Returns why a byte count is missing in an epoch of a worker; None if all have it."""
    for stop in _epochs_of(measured):
        if stop.sent_bytes is None:
            return stop.sent_reason or UNSEEN_BYTES
        if sent(stop) is None:
            return BYTES_NOT_SPLIT
    return None


def why_no_waits(measured: Measured) -> str | None:
    """Returns why an epoch of a worker has no time of waiting; None if all have it."""
    return next((stop.waited_reason or NOT_SEPARATED for stop in _epochs_of(measured) if stop.waited_s is None), None)


def _share(measured: Measured) -> Figure | str:
    if reason := why_no_exchange(measured) or why_no_waits(measured):
        return reason
    shares = np.array([(stop.waited_s or 0.0) / stop.epoch_s for stop in _epochs_of(measured)])
    detail = {"least": float(shares.min()), "most": float(shares.max())}
    return Figure(float(shares.mean()), mean_interval(shares, least=0.0, most=1.0), len(shares), detail)


SHARE = MetricRow(
    "communication_share",
    "share",
    "lower",
    "waiting for other workers",
    description="The share of training time by which communication between workers lengthened the steps.",
    compute=_share,
    needs="epochs",
    hide_if_unavailable=True,
)


def _bytes_per_step(measured: Measured) -> Figure | str:
    if reason := why_no_exchange(measured) or _no_bytes(measured, lambda stop: stop.sent_bytes):
        return reason
    sent = [
        sum(stop.sent_bytes or 0 for stop in member.all_of(EpochStop, rank.rank))
        for member in measured.finished
        for rank in member.job.ranks
    ]
    steps = [len(member.step_s) for member in measured.finished for _ in member.job.ranks]
    per_step = np.array([of_rank / count for of_rank, count in zip(sent, steps, strict=True)])
    return Figure(
        value=float(per_step.mean()),
        n=int(sum(steps)),
        detail={
            "precision": measured.config.train.communication_precision,
            "least_of_a_worker": float(per_step.min()),
            "most_of_a_worker": float(per_step.max()),
        },
    )


BYTES_PER_STEP = MetricRow(
    "communication_bytes_per_step",
    "B",
    "lower",
    "sent per worker and step",
    description="The bytes that one worker sends to the others per step, from the kernel's counters.",
    compute=_bytes_per_step,
    needs="epochs",
    hide_if_unavailable=True,
)


class Exchange(NamedTuple):
    """Bytes sent by one member, over all workers."""

    member: int
    bytes_per_step: float
    bytes_per_s: float


def _bandwidth(measured: Measured, sent: Sent) -> Figure | str:
    """Computes the bandwidth of these bytes."""
    if reason := why_no_exchange(measured) or _no_bytes(measured, sent):
        return reason
    found = [_exchange_of(member, sent) for member in measured.finished]
    rates = np.array([each.bytes_per_s for each in found])
    return Figure(
        value=float(rates.mean()),
        ci95=mean_interval(rates),
        n=len(found),
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


INTRA_NODE = MetricRow(
    "communication_intra_node_bytes_per_s",
    "B/s",
    "neither",
    "intra-node traffic",
    description="The bytes per second of training that a member's workers send within their node.",
    compute=lambda measured: _bandwidth(measured, lambda stop: stop.sent_intra_node_bytes),
    needs="epochs",
    hide_if_unavailable=True,
)
INTER_NODE = MetricRow(
    "communication_inter_node_bytes_per_s",
    "B/s",
    "neither",
    "inter-node traffic",
    description="The bytes per second of training that a member's workers send to other nodes.",
    compute=lambda measured: _bandwidth(measured, lambda stop: stop.sent_inter_node_bytes),
    needs="epochs",
    hide_if_unavailable=True,
)


def _bubble(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    if measured.config.train.parallel not in SPLITTING:
        return f"train.parallel={measured.config.train.parallel} has no pipeline"
    epochs = _epochs_of(measured)
    shares = [stop.bubble_share for stop in epochs if stop.bubble_share is not None]
    if len(shares) < len(epochs):
        return NOT_SEPARATED
    return Figure(float(np.mean(shares)), n=len(shares), detail={"ideal": epochs[0].ideal_bubble_share})


BUBBLE = MetricRow(
    "bubble_share",
    "share",
    "lower",
    "pipeline bubble",
    description="The share of training time in which a pipeline's workers were idle.",
    compute=_bubble,
    needs="epochs",
    hide_if_unavailable=True,
)


def _staleness(measured: Measured) -> Figure | str:
    if not measured.finished:
        return NO_MEMBER
    found = [value for stop in _epochs_of(measured) for value in stop.staleness]
    if not found:
        return f"train.communication={measured.config.train.communication} has no parameter server"
    staleness = np.array(found, dtype=np.float64)
    interval = mean_interval(staleness, least=0.0)
    return Figure(float(staleness.mean()), interval, len(staleness), {"most": int(staleness.max())})


STALENESS = MetricRow(
    "staleness_steps",
    "steps",
    "lower",
    "staleness of gradients",
    description="Updates of a parameter server's weights between reading them and applying the gradient.",
    compute=_staleness,
    needs="epochs",
    hide_if_unavailable=True,
)
