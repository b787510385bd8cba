"""torus-2d: gradients are summed along the rows of a grid of workers, then along its columns."""

import math
from functools import partial

from torch import Tensor

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.joined_gradients import JoinedGradients
from trainmark.train.communication.staged_join import StagedJoin
from trainmark.train.communication.team import Team, assemble, ring_all_gather, ring_all_reduce, ring_reduce_scatter
from trainmark.train.communication.wire import Writer, message_wire_of
from trainmark.train.peers import Peers


def build(peers: Peers, settings: TrainConfig) -> JoinedGradients:
    """2D-torus all-reduce: reduce-scatter along rings of rows, all-reduce along columns, all-gather along rows."""
    wire = message_wire_of(settings)
    if peers.size == 1:
        return JoinedGradients(peers, None)
    everyone = assemble(peers)
    width = row_length(peers.size, settings.communication_group)
    first, column = peers.rank - peers.rank % width, peers.rank % width
    rows = everyone.part(range(first, first + width))
    columns = everyone.part(range(column, peers.size, width))
    return JoinedGradients(peers, StagedJoin(peers, wire, partial(_exchange, rows, columns)))


def row_length(workers: int, chosen: int | None) -> int:
    """Workers of a row: as chosen, or the smallest divisor that makes rows no shorter than columns."""
    if chosen is None:
        return next(width for width in range(math.isqrt(workers - 1) + 1, workers + 1) if workers % width == 0)
    assert workers % chosen == 0, "the plan has checked it"
    return chosen


def _exchange(row: Team, column: Team, values: Tensor, writer: Writer) -> None:
    """The values are the sum over the grid: 1/X of them goes along a column of a grid with rows of X workers."""
    chunks = values.tensor_split(row.size)
    ring_reduce_scatter(row, chunks, writer)
    ring_all_reduce(column, chunks[row.place], writer)
    # Workers of a column write the same values in the same way, so that workers of all rows read the same.
    ring_all_gather(row, chunks, writer)
