"""StagedJoin: the mean gradients of each bucket, summed stage by stage in a mode's own way."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from trainmark.train.communication.in_turn import InTurn
from trainmark.train.communication.wire import Wire, Writer, Writers
from trainmark.train.peers import Peers

# Makes values the sum over all peers, in place and the same on all of them; the writer writes the messages.
Exchange = Callable[[Tensor, Writer], None]


class StagedJoin:
    """Joins buckets by `exchange`, with messages in the format of `wire`."""

    def __init__(self, peers: Peers, wire: Wire, exchange: Exchange) -> None:
        self._size = peers.size
        self._exchange = exchange
        self._writers = Writers(wire)
        self._in_turn = InTurn(peers.device)

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """The bucket's mean gradients, once they are there."""
        gradients, index = bucket.buffer(), bucket.index()
        return self._in_turn.run(lambda: self._mean(gradients, index))

    def _mean(self, gradients: Tensor, index: int) -> Tensor:
        # Divided first: a sum of fp16 gradients may exceed 65504 where their mean does not.
        mean = gradients.float().div_(self._size)
        self._exchange(mean, self._writers.writer(index))
        return gradients.copy_(mean)

    def state(self) -> dict[str, Any]:
        """The errors of compression that are still to be made good."""
        return self._writers.state()

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        self._writers.load(state)
