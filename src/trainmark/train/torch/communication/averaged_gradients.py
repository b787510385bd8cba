"""AveragedGradients: a communicator whose workers hold the same weights and average gradients while backward runs."""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from trainmark.spec.events import EpochFacts
from trainmark.train.torch.communication.wire import Wire, Writer, Writers
from trainmark.train.torch.protocols import Peers
from trainmark.train.torch.stopwatch import Instant, Stopwatch

BUCKET_MIB: float | None = None  # the library's: 1 MiB for the first bucket, 25 MiB for the others


class Reduction(Protocol):
    """How the gradients of a bucket become their mean over the peers."""

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """The bucket's mean gradients, once they are there; called bucket by bucket, in the same order everywhere."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        ...


class AveragedGradients:
    """Synchronous data parallelism: DistributedDataParallel, with `join` as its communication hook."""

    def __init__(self, peers: Peers, join: Reduction | None, *, bytes_unseen: str | None = None) -> None:
        """`bytes_unseen`: why the kernel's counters do not see what `join` sends, if so."""
        self._peers = peers
        self._bytes_unseen = bytes_unseen
        self._join = join  # None: alone
        self._is_ordering = False
        self._watch = Stopwatch(peers.device)
        self._own_end: Instant = 0.0

    def share(self, model: nn.Module) -> nn.Module:
        """The model, wrapped so that backward averages gradients over the peers."""
        if self._join is None:
            return model
        with warnings.catch_warnings():
            # torch 2.13 renames broadcast_buffers; torch 2.11 knows only that name.
            warnings.simplefilter("ignore", FutureWarning)
            shared = DistributedDataParallel(
                model,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                process_group=self._peers.group,
                bucket_cap_mb=BUCKET_MIB,
            )
        shared.register_comm_hook(None, self._on_bucket)
        self._order_buckets(shared)
        return shared

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """Every worker makes the same step."""
        step()

    def settle(self) -> None:
        """Nothing to do: weights are the same after every step."""

    def facts(self) -> EpochFacts:
        """Time from the end of the workers' own backward passes until all gradients were there; unseen bytes."""
        if self._join is None:
            return {}
        facts: EpochFacts = {"waited_s": self._watch.read()["waiting"]}
        if self._bytes_unseen:
            facts |= {"sent_bytes": None, "sent_intra_node_bytes": None, "sent_inter_node_bytes": None}
            facts["sent_reason"] = self._bytes_unseen
        return facts

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of this worker."""
        return {} if self._join is None else self._join.state()

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        if self._join is not None:
            self._join.load(state)

    def _order_buckets(self, shared: DistributedDataParallel) -> None:
        """Buckets have their final order and sizes before the first step.

        The library forms them anew after the first backward pass, in the order in which gradients came. A resumed run
        would then take its first step with other buckets than the run that was not interrupted: sums in another order,
        and errors of a bucket fed back into another one. One backward pass without messages or a model settles it.
        """
        model, shared.module = shared.module, _EveryParameter(shared.module)
        self._is_ordering = True
        shared().backward()
        self._is_ordering = False
        shared.module = model
        model.zero_grad(set_to_none=True)

    def _on_bucket(self, _: None, bucket: GradBucket) -> Future[Tensor]:
        assert self._join is not None
        if self._is_ordering:
            unchanged: Future[Tensor] = Future()
            unchanged.set_result(bucket.buffer())
            return unchanged
        if bucket.is_last():
            _at_end_of_backward(self._on_own_end)
        return self._join(bucket)

    def _on_own_end(self) -> None:
        """All gradients of this worker are there; the library waits for the others' next, then comes `_on_end`."""
        self._own_end = self._watch.now()
        _at_end_of_backward(self._on_end)

    def _on_end(self) -> None:
        self._watch.add("waiting", self._own_end)


class _EveryParameter(nn.Module):
    """Stands for a model whose gradients come from the last parameter to the first."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # In a list of lists, so that they are not registered a second time.
        self._parameters_of_model = [[parameter for parameter in model.parameters() if parameter.requires_grad]]

    def forward(self) -> Tensor:
        """A number that depends on every parameter."""
        total = torch.zeros(())
        for parameter in self._parameters_of_model[0]:
            total = total.to(parameter) + parameter.sum()
        return total


def _at_end_of_backward(act: Callable[[], None]) -> None:
    """`act` is called after this backward pass, and after what else was to be done then until now."""
    torch.autograd.Variable._execution_engine.queue_callback(act)


class InTurn:
    """One thread for exchanges, so that the messages of two never mix; on a GPU, one stream does the same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="communication")
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def run(self, exchange: Callable[[], Tensor]) -> Future[Tensor]:
        """What `exchange` will give, after those before it."""
        if self._stream is not None:
            done: Future[Tensor] = Future(devices=[self._device])
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                done.set_result(exchange())  # who waits for it makes his own stream wait
            return done
        future: Future[Tensor] = Future()
        self._thread.submit(_fulfil, future, exchange)
        return future


def _fulfil(future: Future[Tensor], exchange: Callable[[], Tensor]) -> None:
    try:
        future.set_result(exchange())
    except Exception as error:  # noqa: BLE001 - whatever it is, backward must end with it, not wait for ever
        future.set_exception(error)  # type: ignore[arg-type]


# Makes values the sum over all peers, in place and the same on all of them; the writer writes the messages.
Exchange = Callable[[Tensor, Writer], None]


class StagedReduction:
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
