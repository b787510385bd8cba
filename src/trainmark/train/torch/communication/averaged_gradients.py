"""AveragedGradients: replicas with identical weights that average gradients during the backward pass."""

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
from trainmark.train.torch.communication.wire import Encoder, Encoders, Wire
from trainmark.train.torch.protocols import WorkerGroup
from trainmark.train.torch.stopwatch import Instant, Stopwatch

BUCKET_MIB: float | None = None  # DDP's default: 1 MiB for the first bucket, 25 MiB for the others


class Reduction(Protocol):
    """Averages the gradients of a bucket over the workers."""

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """Returns a future of the bucket's mean gradients; called in the same order on all workers."""
        ...

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        ...


class AveragedGradients:
    """Synchronous data parallelism: DistributedDataParallel, with `reduction` as its communication hook."""

    def __init__(
        self, workers: WorkerGroup, reduction: Reduction | None, *, bytes_uncounted: str | None = None
    ) -> None:
        """`bytes_uncounted`: why the kernel does not count the bytes that `reduction` sends."""
        self._workers = workers
        self._bytes_unseen = bytes_uncounted
        self._reduction = reduction  # None: one worker
        self._is_ordering = False
        self._watch = Stopwatch(workers.device)
        self._local_end: Instant = 0.0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model in DistributedDataParallel, which averages gradients over the workers."""
        if self._reduction is None:
            return model
        with warnings.catch_warnings():
            # torch 2.13 renames broadcast_buffers; torch 2.11 has only the old name.
            warnings.simplefilter("ignore", FutureWarning)
            wrapped = DistributedDataParallel(
                model,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                process_group=self._workers.group,
                bucket_cap_mb=BUCKET_MIB,
            )
        wrapped.register_comm_hook(None, self._on_bucket)
        self._order_buckets(wrapped)
        return wrapped

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        """Makes the same step on every worker."""
        step()

    def sync_weights(self) -> None:
        """No-op: weights are the same after every step."""

    def facts(self) -> EpochFacts:
        """Time from the end of the local backward pass until all gradients are reduced; uncounted bytes."""
        if self._reduction is None:
            return {}
        facts: EpochFacts = {"waited_s": self._watch.read()["waiting"]}
        if self._bytes_unseen:
            facts |= {"sent_bytes": None, "sent_intra_node_bytes": None, "sent_inter_node_bytes": None}
            facts["sent_reason"] = self._bytes_unseen
        return facts

    def state(self) -> dict[str, Any]:
        """The state of this worker for a checkpoint."""
        return {} if self._reduction is None else self._reduction.state()

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        if self._reduction is not None:
            self._reduction.load(state)

    def _order_buckets(self, wrapped: DistributedDataParallel) -> None:
        """Fixes order and sizes of buckets before the first step.

        DDP rebuilds them after the first backward pass, in the order in which gradients became ready. A resumed run
        would then make its first step with other buckets than an uninterrupted one: sums in another order, and error
        feedback applied to the wrong bucket. One backward pass over a stand-in, without messages, prevents it.
        """
        model, wrapped.module = wrapped.module, _EveryParameter(wrapped.module)
        self._is_ordering = True
        wrapped().backward()
        self._is_ordering = False
        wrapped.module = model
        model.zero_grad(set_to_none=True)

    def _on_bucket(self, _: None, bucket: GradBucket) -> Future[Tensor]:
        assert self._reduction is not None
        if self._is_ordering:
            unchanged: Future[Tensor] = Future()
            unchanged.set_result(bucket.buffer())
            return unchanged
        if bucket.is_last():
            _at_end_of_backward(self._on_local_end)
        return self._reduction(bucket)

    def _on_local_end(self) -> None:
        """The local gradients are ready; DDP waits for the reduced ones next, then `_on_end` runs."""
        self._local_end = self._watch.now()
        _at_end_of_backward(self._on_end)

    def _on_end(self) -> None:
        self._watch.add("waiting", self._local_end)


class _EveryParameter(nn.Module):
    """A stand-in whose gradients become ready from the last parameter to the first."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # Nested lists keep them from being registered twice.
        self._parameters_of_model = [[parameter for parameter in model.parameters() if parameter.requires_grad]]

    def forward(self) -> Tensor:
        """A number that depends on every parameter."""
        total = torch.zeros(())
        for parameter in self._parameters_of_model[0]:
            total = total.to(parameter) + parameter.sum()
        return total


def _at_end_of_backward(act: Callable[[], None]) -> None:
    """Queues `act` to run after this backward pass, behind the callbacks queued so far."""
    torch.autograd.Variable._execution_engine.queue_callback(act)


class ExchangeQueue:
    """Runs exchanges one after another, on one thread or one CUDA stream, so that their messages never mix."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="communication")
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def submit(self, exchange: Callable[[], Tensor]) -> Future[Tensor]:
        """Returns a future of what `exchange` returns."""
        if self._stream is not None:
            done: Future[Tensor] = Future(devices=[self._device])
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                done.set_result(exchange())  # waiting for it makes the waiting stream wait
            return done
        future: Future[Tensor] = Future()
        self._thread.submit(_complete, future, exchange)
        return future


def _complete(future: Future[Tensor], exchange: Callable[[], Tensor]) -> None:
    try:
        future.set_result(exchange())
    except Exception as error:  # noqa: BLE001  the backward pass must raise it, not hang
        future.set_exception(error)  # type: ignore[arg-type]


# Sums values over all workers in place, bitwise the same on all of them; the encoder encodes the messages.
Exchange = Callable[[Tensor, Encoder], None]


class WireReduction:
    """Reduces buckets by `exchange`, with messages in the format of `wire`."""

    def __init__(self, workers: WorkerGroup, wire: Wire, exchange: Exchange) -> None:
        self._size = workers.size
        self._exchange = exchange
        self._encoders = Encoders(wire)
        self._queue = ExchangeQueue(workers.device)

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """Returns a future of the bucket's mean gradients."""
        gradients, index = bucket.buffer(), bucket.index()
        return self._queue.submit(lambda: self._mean(gradients, index))

    def _mean(self, gradients: Tensor, index: int) -> Tensor:
        # Divided first: a sum of fp16 gradients may exceed 65504 where their mean does not.
        mean = gradients.float().div_(self._size)
        self._exchange(mean, self._encoders.encoder(index))
        return gradients.copy_(mean)

    def state(self) -> dict[str, Any]:
        """The error feedback."""
        return self._encoders.state()

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._encoders.load(state)
