"""hierarchical: gradients are summed inside groups of near workers, then among the groups' leaders."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.joined_gradients import JoinedGradients
from trainmark.train.communication.staged_join import StagedJoin
from trainmark.train.communication.team import Team, all_reduce, assemble
from trainmark.train.communication.wire import Writer, message_wire_of
from trainmark.train.peers import Peers


def build(peers: Peers, settings: TrainConfig) -> JoinedGradients:
    """Hierarchical all-reduce: sums inside each node (or group) first, then among the nodes' leaders."""
    wire = message_wire_of(settings)
    if peers.size == 1:
        return JoinedGradients(peers, None)
    everyone = assemble(peers)
    groups = form_groups(peers.nodes, settings.communication_group)
    near = everyone.part(next(group for group in groups if peers.rank in group))
    leaders = everyone.part([group[0] for group in groups]) if near.place == 0 else None
    exchange = partial(_exchange, near, leaders)
    return JoinedGradients(peers, StagedJoin(peers, wire, exchange))


def form_groups(nodes: Sequence[str], size: int | None) -> list[list[int]]:
    """The ranks of each group: those of a node, or `size` ranks in a row."""
    groups: dict[str | int, list[int]] = {}
    for rank, node in enumerate(nodes):
        groups.setdefault(node if size is None else rank // size, []).append(rank)
    return list(groups.values())


def _exchange(near: Team, leaders: Team | None, values: Tensor, writer: Writer) -> None:
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
