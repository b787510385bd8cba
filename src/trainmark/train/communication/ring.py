"""ring: gradients are averaged by partial sums that go round a ring of all workers."""

from functools import partial

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.joined_gradients import JoinedGradients
from trainmark.train.communication.staged_join import StagedJoin
from trainmark.train.communication.team import assemble, ring_all_reduce
from trainmark.train.communication.wire import message_wire_of
from trainmark.train.peers import Peers


def build(peers: Peers, settings: TrainConfig) -> JoinedGradients:
    """Ring all-reduce: reduce-scatter and all-gather in 2·(P − 1) hops from each worker to the next."""
    wire = message_wire_of(settings)
    if peers.size == 1:
        return JoinedGradients(peers, None)
    exchange = partial(ring_all_reduce, assemble(peers))
    return JoinedGradients(peers, StagedJoin(peers, wire, exchange))
