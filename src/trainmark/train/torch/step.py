"""One training step: the learning rate, then one update, eager or replayed as a CUDA graph."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trainmark.train.torch.build import TrainingState
from trainmark.train.torch.protocols import Pass, StepPasses


def put_rate_on(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Moves the learning rates to tensors on `device`, so that a captured graph sees new values."""
    for group in optimizer.param_groups:
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)


def set_rate(optimizer: torch.optim.Optimizer, rate: float, correction: str) -> None:
    """Sets the rate of the next step; `correction` is "as-published", "on" or "off" (Goyal et al. 2017, §3).

    Corrected momentum sums gradients, u = m·u + g; w -= rate·u, as in torch's SGD. Uncorrected momentum sums past
    updates, v = m·v + rate·g; w -= v, as in LARS. v = rate·u converts one into the other.
    """
    holds_rate = getattr(optimizer, "momentum_holds_rate", False)
    should_hold_rate = {"as-published": holds_rate, "on": False, "off": True}[correction]
    for group in optimizer.param_groups:
        initial = group.setdefault("initial_lr", float(group["lr"]))
        buffers = [] if should_hold_rate == holds_rate else _momentum_buffers(optimizer, group)
        used = rate
        if buffers:
            # A rate of 0 would erase u or v; this smallest rate is below the resolution of the dtype.
            smallest = torch.finfo(buffers[0].dtype).eps * initial
            used = max(rate, smallest)
            growth = used / max(group.get("rate", initial), smallest)
            if growth != 1:
                torch._foreach_mul_(buffers, growth if holds_rate else 1 / growth)
        group["rate"] = used  # on the host: reading `lr` would synchronise with the device
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(used)
        else:
            group["lr"] = used


def set_weight_decay(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Sets every group's weight decay to `factor` times its initial value."""
    for group in optimizer.param_groups:
        if group.get("weight_decay_factor") != factor:
            group["weight_decay_factor"] = factor
            group["weight_decay"] = factor * group.setdefault("initial_weight_decay", group["weight_decay"])


def _momentum_buffers(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> list[Tensor]:
    states = [optimizer.state.get(parameter, {}) for parameter in group["params"]]
    return [state["momentum_buffer"] for state in states if state.get("momentum_buffer") is not None]


OfTensors = Callable[[Tensor, Tensor], Tensor]  # from inputs and targets to the loss
OfPasses = Callable[[Sequence[Pass] | StepPasses], Tensor]
Step = Callable[[tuple[Tensor, Tensor] | StepPasses], Tensor]

EAGER_STEPS = 3  # before capture: kernels are selected, optimizer state and buffers allocated


def step_of(state: TrainingState, accumulation: int, *, captured: bool) -> Step:
    """Returns the function that makes one step and returns the batch's loss, still on the device.

    A batch is cut into `accumulation` passes; one of unlike images comes as passes.
    """
    of_passes = eager_step(state)

    def eager(inputs: Tensor, targets: Tensor) -> Tensor:
        if accumulation == 1:
            return of_passes([Pass(inputs, targets)])
        parts = zip(inputs.chunk(accumulation), targets.chunk(accumulation), strict=True)
        return of_passes([Pass(*samples, divisor=accumulation) for samples in parts])

    of_tensors: OfTensors = CapturedStep(eager, state.optimizer) if captured else eager
    return lambda batch: of_passes(batch) if isinstance(batch, StepPasses) else of_tensors(*batch)


def eager_step(state: TrainingState) -> OfPasses:
    """A step that the host launches operator by operator."""
    optimizer, scaler = state.optimizer, state.arithmetic.scaler
    forward_backward, update = state.parallelism.forward_backward, state.communicator.update

    def scaled() -> None:
        assert scaler is not None
        scaler.step(optimizer)
        scaler.update()

    local_update = optimizer.step if scaler is None else scaled
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]

    def step(passes: Sequence[Pass] | StepPasses) -> Tensor:
        for weight in weights:  # a tenth of the time of optimizer.zero_grad
            weight.grad = None
        loss = forward_backward(passes)
        update(optimizer, local_update)
        return loss

    return step


class CapturedStep:
    """Replays a step as one CUDA graph: one launch instead of a thousand. The first steps are eager."""

    def __init__(self, eager: OfTensors, optimizer: torch.optim.Optimizer) -> None:
        self._eager = eager
        self._optimizer = optimizer
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._constants: tuple[float, ...] = ()
        self._calls = 0
        put_rate_on(optimizer, torch.device("cuda"))

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Makes one step; the returned loss is a copy that later steps do not overwrite."""
        self._calls += 1
        if self._calls <= EAGER_STEPS:
            return self._on_side_stream(inputs, targets)
        if self._graph is None or self._constants != self._captured_constants() or inputs.shape != self._inputs.shape:
            self._capture(inputs, targets)
        assert self._graph is not None
        if inputs.data_ptr() != self._inputs.data_ptr():
            self._inputs.copy_(inputs)
            self._targets.copy_(targets)
        self._graph.replay()
        return self._loss.clone()

    def _on_side_stream(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._eager(inputs, targets)
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _capture(self, inputs: Tensor, targets: Tensor) -> None:
        # References keep the allocator from reusing the memory that the graph reads and writes.
        self._inputs, self._targets = inputs, targets
        self._constants = self._captured_constants()
        self._optimizer.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = self._eager(self._inputs, self._targets)

    def _captured_constants(self) -> tuple[float, ...]:
        """Values that are constants in a captured graph."""
        return tuple(group.get("weight_decay", 0.0) for group in self._optimizer.param_groups)
