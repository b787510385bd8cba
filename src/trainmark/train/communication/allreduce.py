"""allreduce: gradients are averaged by the library's own all-reduce, or by a compressed one."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from trainmark.spec.config import TrainConfig
from trainmark.train.communication.joined_gradients import Join, JoinedGradients
from trainmark.train.communication.powersgd import PowerSgd
from trainmark.train.communication.staged_join import StagedJoin
from trainmark.train.communication.team import all_reduce, assemble
from trainmark.train.communication.wire import wire_of
from trainmark.train.peers import Peers


def build(peers: Peers, settings: TrainConfig) -> JoinedGradients:
    """Synchronous all-reduce of the library; int8 is summed in fp32 between two exchanges of all with all."""
    return JoinedGradients(peers, _join(peers, settings) if peers.size > 1 else None)


def _join(peers: Peers, settings: TrainConfig) -> Join:
    wire = wire_of(settings)
    if isinstance(wire, PowerSgd):
        return wire.join(peers)
    if wire.dtype is not None:
        return LibraryJoin(peers, wire.dtype)
    return StagedJoin(peers, wire, partial(all_reduce, assemble(peers)))


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
