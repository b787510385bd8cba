"""Team: workers that exchange messages, and the collectives over them, direct and by ring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from trainmark.train.torch.communication.wire import Encoder
from trainmark.train.torch.protocols import WorkerGroup


@dataclass(frozen=True)
class Team:
    """A subset of a process group: `ranks` in the group, and this worker's `index` among them."""

    group: ProcessGroup
    ranks: Sequence[int]
    index: int

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.ranks)

    def subteam(self, ranks: Sequence[int]) -> "Team":
        """The team of these workers, including this one; needs no communication."""
        return Team(self.group, ranks, ranks.index(self.ranks[self.index]))

    def exchange(self, outgoing: Mapping[int, Tensor], incoming: Mapping[int, Tensor]) -> None:
        """Sends and receives messages by team index, all concurrently; empty ones are skipped."""
        operations = [
            dist.P2POp(act, message, group=self.group, group_peer=self.ranks[index])
            for act, messages in ((dist.isend, outgoing), (dist.irecv, incoming))
            for index, message in messages.items()
            if message.numel()
        ]
        for work in dist.batch_isend_irecv(operations) if operations else ():
            work.wait()


def form_team(workers: WorkerGroup, backend: str | None = None) -> Team:
    """A team of all workers in a new process group, so that its messages cannot mix with others."""
    # Only these workers take part: the member's other workers may be forming other groups.
    ranks = dist.get_process_group_ranks(workers.group)
    group = dist.new_group(ranks, backend=backend, use_local_synchronization=True)
    assert isinstance(group, ProcessGroup)
    return Team(group, range(workers.size), workers.rank)


# Direct: every worker sends to every other at once. `chunks` has one chunk per worker, updated in place.


def reduce_scatter(team: Team, chunks: Sequence[Tensor], encoder: Encoder) -> None:
    """Sums this worker's chunk over the team."""
    chunk = chunks[team.index]
    others = [index for index in range(team.size) if index != team.index]
    received = {index: encoder.empty_message(chunk) for index in others}
    team.exchange({index: encoder.encode(chunks[index]) for index in others}, received)
    for payload in received.values():
        chunk += encoder.decode(payload)


def all_gather(team: Team, chunks: Sequence[Tensor], encoder: Encoder) -> None:
    """Copies every worker's chunk to all, as decoded from the message: bitwise the same on every worker."""
    payload = encoder.encode(chunks[team.index])
    others = [index for index in range(team.size) if index != team.index]
    received = {index: encoder.empty_message(chunks[index]) for index in others}
    team.exchange(dict.fromkeys(others, payload), received)
    for index, sent in (received | {team.index: payload}).items():
        chunks[index].copy_(encoder.decode(sent))


def all_reduce(team: Team, values: Tensor, encoder: Encoder) -> None:
    """Sums the values over the team in place: each worker sends 2·(P − 1)/P of them, in two rounds."""
    if team.size > 1:
        chunks = values.tensor_split(team.size)
        reduce_scatter(team, chunks, encoder)
        all_gather(team, chunks, encoder)


# Ring: every worker sends to the next one only, P − 1 times.


def ring_reduce_scatter(team: Team, chunks: Sequence[Tensor], encoder: Encoder) -> None:
    """Sums this worker's chunk over the team: partial sums go round the ring."""
    for hop in range(team.size - 1):
        leaving, arriving = (chunks[(team.index - 1 - back) % team.size] for back in (hop, hop + 1))
        arriving += encoder.decode(_shift(team, encoder.encode(leaving), encoder.empty_message(arriving)))


def ring_all_gather(team: Team, chunks: Sequence[Tensor], encoder: Encoder) -> None:
    """Copies every worker's chunk to all: each message goes round the ring unchanged."""
    payload = encoder.encode(chunks[team.index])
    chunks[team.index].copy_(encoder.decode(payload))
    for hop in range(team.size - 1):
        arriving = chunks[(team.index - 1 - hop) % team.size]
        payload = _shift(team, payload, encoder.empty_message(arriving))
        arriving.copy_(encoder.decode(payload))


def ring_all_reduce(team: Team, values: Tensor, encoder: Encoder) -> None:
    """Sums the values over the team in place: each worker sends 2·(P − 1)/P of them, in 2·(P − 1) hops."""
    if team.size > 1:
        chunks = values.tensor_split(team.size)
        ring_reduce_scatter(team, chunks, encoder)
        ring_all_gather(team, chunks, encoder)


def _shift(team: Team, payload: Tensor, received: Tensor) -> Tensor:
    """Sends `payload` to the next worker; returns what the previous one sent."""
    team.exchange({(team.index + 1) % team.size: payload}, {(team.index - 1) % team.size: received})
    return received
