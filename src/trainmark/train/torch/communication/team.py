"""Team: workers that exchange messages, and the stages that sums over them are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from trainmark.train.torch.communication.wire import Writer
from trainmark.train.torch.protocols import Peers


@dataclass(frozen=True)
class Team:
    """Some of a group's workers, in order: `ranks` are theirs in the group, `place` is this worker's among them."""

    group: ProcessGroup
    ranks: Sequence[int]
    place: int

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.ranks)

    def part(self, ranks: Sequence[int]) -> "Team":
        """The team of those workers, of which this worker is one; no messages are needed to form it."""
        return Team(self.group, ranks, ranks.index(self.ranks[self.place]))

    def swap(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor]) -> None:
        """Messages to and from places in the team, all at the same time; empty ones are not sent."""
        operations = [
            dist.P2POp(act, message, group=self.group, group_peer=self.ranks[place])
            for act, messages in ((dist.isend, outgoing), (dist.irecv, incoming))
            for place, message in messages.items()
            if message.numel()
        ]
        for work in dist.batch_isend_irecv(operations) if operations else ():
            work.wait()


def assemble(peers: Peers, backend: str | None = None) -> Team:
    """All peers, in a group of their own: their messages cannot meet others that are under way at the same time."""
    # Only the peers take part: the member's other workers may be forming groups of their own.
    ranks = dist.get_process_group_ranks(peers.group)
    group = dist.new_group(ranks, backend=backend, use_local_synchronization=True)
    assert isinstance(group, ProcessGroup)
    return Team(group, range(peers.size), peers.rank)


# The direct stages: every worker sends to every other at once. `chunks` are one a worker, and are changed in place.


def reduce_scatter(team: Team, chunks: Sequence[Tensor], writer: Writer) -> None:
    """This worker's chunk is the team's sum."""
    mine = chunks[team.place]
    others = [place for place in range(team.size) if place != team.place]
    received = {place: writer.blank(mine) for place in others}
    team.swap({place: writer.encode(chunks[place]) for place in others}, received)
    for payload in received.values():
        mine += writer.decode(payload)


def all_gather(team: Team, chunks: Sequence[Tensor], writer: Writer) -> None:
    """All chunks are what their workers have of them, as it was sent: the same on every worker."""
    payload = writer.encode(chunks[team.place])
    others = [place for place in range(team.size) if place != team.place]
    received = {place: writer.blank(chunks[place]) for place in others}
    team.swap(dict.fromkeys(others, payload), received)
    for place, sent in (received | {team.place: payload}).items():
        chunks[place].copy_(writer.decode(sent))


def all_reduce(team: Team, values: Tensor, writer: Writer) -> None:
    """The values are the team's sum: 2·(P − 1)/P of them are sent by each worker, in two stages."""
    if team.size > 1:
        chunks = values.tensor_split(team.size)
        reduce_scatter(team, chunks, writer)
        all_gather(team, chunks, writer)


# The ring stages: every worker sends to the next one only, P − 1 times.


def ring_reduce_scatter(team: Team, chunks: Sequence[Tensor], writer: Writer) -> None:
    """This worker's chunk is the team's sum: partial sums went round, the last hop brought its own."""
    for hop in range(team.size - 1):
        leaving, arriving = (chunks[(team.place - 1 - back) % team.size] for back in (hop, hop + 1))
        arriving += writer.decode(_pass_on(team, writer.encode(leaving), writer.blank(arriving)))


def ring_all_gather(team: Team, chunks: Sequence[Tensor], writer: Writer) -> None:
    """All chunks are what their workers have of them, as it was sent: each message goes round unchanged."""
    payload = writer.encode(chunks[team.place])
    chunks[team.place].copy_(writer.decode(payload))
    for hop in range(team.size - 1):
        arriving = chunks[(team.place - 1 - hop) % team.size]
        payload = _pass_on(team, payload, writer.blank(arriving))
        arriving.copy_(writer.decode(payload))


def ring_all_reduce(team: Team, values: Tensor, writer: Writer) -> None:
    """The values are the team's sum: 2·(P − 1)/P of them are sent by each worker, in 2·(P − 1) hops."""
    if team.size > 1:
        chunks = values.tensor_split(team.size)
        ring_reduce_scatter(team, chunks, writer)
        ring_all_gather(team, chunks, writer)


def _pass_on(team: Team, payload: Tensor, room: Tensor) -> Tensor:
    """What the worker before this one sent, while `payload` went to the one after it."""
    team.swap({(team.place + 1) % team.size: payload}, {(team.place - 1) % team.size: room})
    return room
