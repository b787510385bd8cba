"""The all-reduces: the library's own, by rings, hierarchical and on a 2D torus."""

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
from trainmark.train.torch.communication.averaged_gradients import AveragedGradients, Reduction, StagedReduction
from trainmark.train.torch.communication.powersgd import PowerSgd
from trainmark.train.torch.communication.team import (
    Team,
    all_reduce,
    assemble,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from trainmark.train.torch.communication.wire import Writer, message_wire_of, wire_of
from trainmark.train.torch.protocols import Peers


def allreduce(peers: Peers, settings: TrainConfig) -> AveragedGradients:
    """Synchronous all-reduce of the library; int8 is summed in fp32 between two exchanges of all with all."""
    return AveragedGradients(peers, _join(peers, settings) if peers.size > 1 else None)


def _join(peers: Peers, settings: TrainConfig) -> Reduction:
    wire = wire_of(settings)
    if isinstance(wire, PowerSgd):
        return wire.join(peers)
    if wire.dtype is not None:
        return LibraryJoin(peers, wire.dtype)
    return StagedReduction(peers, wire, partial(all_reduce, assemble(peers)))


class LibraryJoin:
    """Joins buckets by torch.distributed.all_reduce, in a format that it can add up."""

    def __init__(self, peers: Peers, dtype: torch.dtype) -> None:
        self._peers = peers
        self._dtype = dtype

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """The bucket's mean gradients, once they are there."""
        gradients = bucket.buffer()
        # Divided first: a sum of fp16 gradients may exceed 65504 where their mean does not.
        sent = gradients.div_(self._peers.size).to(self._dtype)
        work = dist.all_reduce(sent, group=self._peers.group, async_op=True)
        summed: Future[list[Tensor]] = work.get_future()
        return summed.then(lambda done: gradients.copy_(done.value()[0]))

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Nothing to go on from."""


def ring(peers: Peers, settings: TrainConfig) -> AveragedGradients:
    """Ring all-reduce: reduce-scatter and all-gather in 2·(P − 1) hops from each worker to the next."""
    wire = message_wire_of(settings)
    if peers.size == 1:
        return AveragedGradients(peers, None)
    exchange = partial(ring_all_reduce, assemble(peers))
    return AveragedGradients(peers, StagedReduction(peers, wire, exchange))


def hierarchical(peers: Peers, settings: TrainConfig) -> AveragedGradients:
    """Hierarchical all-reduce: sums inside each node (or group) first, then among the nodes' leaders."""
    wire = message_wire_of(settings)
    if peers.size == 1:
        return AveragedGradients(peers, None)
    everyone = assemble(peers)
    groups = form_groups(peers.nodes, settings.communication_group)
    near = everyone.part(next(group for group in groups if peers.rank in group))
    leaders = everyone.part([group[0] for group in groups]) if near.place == 0 else None
    exchange = partial(_sum_by_groups, near, leaders)
    return AveragedGradients(peers, StagedReduction(peers, wire, exchange))


def form_groups(nodes: Sequence[str], size: int | None) -> list[list[int]]:
    """The ranks of each group: those of a node, or `size` ranks in a row."""
    groups: dict[str | int, list[int]] = {}
    for rank, node in enumerate(nodes):
        groups.setdefault(node if size is None else rank // size, []).append(rank)
    return list(groups.values())


def _sum_by_groups(near: Team, leaders: Team | None, values: Tensor, writer: Writer) -> None:
    """The values are the sum over all groups; `leaders` is None where this worker does not lead its group."""
    if leaders is None:
        near.swap({0: writer.encode(values)}, {})
        payload = writer.blank(values)
        near.swap({}, {0: payload})
    else:
        followers = range(1, near.size)
        received = {place: writer.blank(values) for place in followers}
        near.swap({}, received)
        for sent in received.values():
            values += writer.decode(sent)
        all_reduce(leaders, values, writer)
        # All leaders write the same values in the same way, so that workers of all groups read the same.
        payload = writer.encode(values)
        near.swap(dict.fromkeys(followers, payload), {})
    values.copy_(writer.decode(payload))


def torus_2d(peers: Peers, settings: TrainConfig) -> AveragedGradients:
    """2D-torus all-reduce: reduce-scatter along rings of rows, all-reduce along columns, all-gather along rows."""
    wire = message_wire_of(settings)
    if peers.size == 1:
        return AveragedGradients(peers, None)
    everyone = assemble(peers)
    width = row_length(peers.size, settings.communication_group)
    first, column = peers.rank - peers.rank % width, peers.rank % width
    rows = everyone.part(range(first, first + width))
    columns = everyone.part(range(column, peers.size, width))
    return AveragedGradients(peers, StagedReduction(peers, wire, partial(_sum_on_torus, rows, columns)))


def row_length(workers: int, chosen: int | None) -> int:
    """Workers of a row: as chosen, or the smallest divisor that makes rows no shorter than columns."""
    if chosen is None:
        return next(width for width in range(math.isqrt(workers - 1) + 1, workers + 1) if workers % width == 0)
    assert workers % chosen == 0, "the plan has checked it"
    return chosen


def _sum_on_torus(row: Team, column: Team, values: Tensor, writer: Writer) -> None:
    """The values are the sum over the grid: 1/X of them goes along a column of a grid with rows of X workers."""
    chunks = values.tensor_split(row.size)
    ring_reduce_scatter(row, chunks, writer)
    ring_all_reduce(column, chunks[row.place], writer)
    # Workers of a column write the same values in the same way, so that workers of all rows read the same.
    ring_all_gather(row, chunks, writer)
