"""The all-reduces: the library's, ring, hierarchical and 2D torus."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.communication.averaged_gradients import AveragedGradients, Reduction, WireReduction
from trainmark.train.torch.communication.powersgd import PowerSgd
from trainmark.train.torch.communication.team import (
    Team,
    all_reduce,
    form_team,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from trainmark.train.torch.communication.wire import Encoder, message_wire_of, wire_of
from trainmark.train.torch.protocols import WorkerGroup


def allreduce(workers: WorkerGroup, settings: TrainConfig) -> AveragedGradients:
    """Synchronous all-reduce of the library; int8 by direct reduce-scatter and all-gather, with fp32 sums."""
    return AveragedGradients(workers, _reduction(workers, settings) if workers.size > 1 else None)


def _reduction(workers: WorkerGroup, settings: TrainConfig) -> Reduction:
    wire = wire_of(settings)
    if isinstance(wire, PowerSgd):
        return wire.reduction(workers)
    if wire.dtype is not None:
        return LibraryReduction(workers, wire.dtype)
    return WireReduction(workers, wire, partial(all_reduce, form_team(workers)))


class LibraryReduction:
    """Reduces buckets by torch.distributed.all_reduce, in a dtype that it can sum."""

    def __init__(self, workers: WorkerGroup, dtype: torch.dtype) -> None:
        self._workers = workers
        self._dtype = dtype

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """Returns a future of the bucket's mean gradients."""
        gradients = bucket.buffer()
        # Divided first: a sum of fp16 gradients may exceed 65504 where their mean does not.
        sent = gradients.div_(self._workers.size).to(self._dtype)
        work = dist.all_reduce(sent, group=self._workers.group, async_op=True)
        summed: Future[list[Tensor]] = work.get_future()
        return summed.then(lambda done: gradients.copy_(done.value()[0]))

    def state(self) -> dict[str, Any]:
        """Empty: nothing to save."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """No-op."""


def ring(workers: WorkerGroup, settings: TrainConfig) -> AveragedGradients:
    """Ring all-reduce: reduce-scatter and all-gather in 2·(P − 1) hops, each from one worker to the next."""
    wire = message_wire_of(settings)
    if workers.size == 1:
        return AveragedGradients(workers, None)
    exchange = partial(ring_all_reduce, form_team(workers))
    return AveragedGradients(workers, WireReduction(workers, wire, exchange))


def hierarchical(workers: WorkerGroup, settings: TrainConfig) -> AveragedGradients:
    """Hierarchical all-reduce: sums inside each node (or group) first, then among the nodes' leaders."""
    wire = message_wire_of(settings)
    if workers.size == 1:
        return AveragedGradients(workers, None)
    team = form_team(workers)
    groups = form_groups(workers.nodes, settings.communication_group)
    local = team.subteam(next(group for group in groups if workers.rank in group))
    leaders = team.subteam([group[0] for group in groups]) if local.index == 0 else None
    exchange = partial(_sum_by_groups, local, leaders)
    return AveragedGradients(workers, WireReduction(workers, wire, exchange))


def form_groups(nodes: Sequence[str], size: int | None) -> list[list[int]]:
    """The ranks of each group: those of a node, or `size` ranks in a row."""
    groups: dict[str | int, list[int]] = {}
    for rank, node in enumerate(nodes):
        groups.setdefault(node if size is None else rank // size, []).append(rank)
    return list(groups.values())


def _sum_by_groups(local: Team, leaders: Team | None, values: Tensor, encoder: Encoder) -> None:
    """Sums the values over all groups in place; `leaders` is None unless this worker leads its group."""
    if leaders is None:
        local.exchange({0: encoder.encode(values)}, {})
        payload = encoder.empty_message(values)
        local.exchange({}, {0: payload})
    else:
        followers = range(1, local.size)
        received = {index: encoder.empty_message(values) for index in followers}
        local.exchange({}, received)
        for sent in received.values():
            values += encoder.decode(sent)
        all_reduce(leaders, values, encoder)
        # All leaders encode the same values, so that all workers decode the same.
        payload = encoder.encode(values)
        local.exchange(dict.fromkeys(followers, payload), {})
    values.copy_(encoder.decode(payload))


def torus_2d(workers: WorkerGroup, settings: TrainConfig) -> AveragedGradients:
    """2D-torus all-reduce: reduce-scatter along rings of rows, all-reduce along columns, all-gather along rows."""
    wire = message_wire_of(settings)
    if workers.size == 1:
        return AveragedGradients(workers, None)
    team = form_team(workers)
    width = row_length(workers.size, settings.communication_group)
    first, column = workers.rank - workers.rank % width, workers.rank % width
    row = team.subteam(range(first, first + width))
    column_team = team.subteam(range(column, workers.size, width))
    return AveragedGradients(workers, WireReduction(workers, wire, partial(_sum_on_torus, row, column_team)))


def row_length(workers: int, chosen: int | None) -> int:
    """Workers per row: as chosen, or the smallest divisor that makes rows at least as long as columns."""
    if chosen is None:
        return next(width for width in range(math.isqrt(workers - 1) + 1, workers + 1) if workers % width == 0)
    assert workers % chosen == 0, "checked by the plan"
    return chosen


def _sum_on_torus(row: Team, column: Team, values: Tensor, encoder: Encoder) -> None:
    """Sums the values over the grid in place; 1/X of them are sent along columns if rows have X workers."""
    chunks = values.tensor_split(row.size)
    ring_reduce_scatter(row, chunks, encoder)
    ring_all_reduce(column, chunks[row.index], encoder)
    # Workers of a column encode the same values, so that all workers decode the same.
    ring_all_gather(row, chunks, encoder)
