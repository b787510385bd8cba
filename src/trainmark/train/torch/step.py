"""One step of training: the optimizer's rate, then one update, eager or captured and replayed as a CUDA graph."""

from typing import Any

import torch
from torch import Tensor

from trainmark.train.torch.trainee import Step, Trainee


def hold_rate_on(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Every group reads its rate from a tensor on `device`: a captured graph then sees each new rate."""
    for group in optimizer.param_groups:
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)


def set_rate(optimizer: torch.optim.Optimizer, rate: float, correction: str) -> None:
    """The next step is made at `rate`; `correction` is "as-published", or "on" or "off" (Goyal et al. 2017, §3).

    Corrected momentum sums gradients, u = m·u + g; w -= rate·u, as torch's SGD does. Uncorrected momentum sums steps
    already made, v = m·v + rate·g; w -= v, as LARS does. With v = rate·u each turns into the other.
    """
    holds_rate = getattr(optimizer, "momentum_holds_rate", False)
    should_hold_rate = {"as-published": holds_rate, "on": False, "off": True}[correction]
    for group in optimizer.param_groups:
        initial = group.setdefault("initial_lr", float(group["lr"]))
        buffers = [] if should_hold_rate == holds_rate else _momentum_buffers(optimizer, group)
        used = rate
        if buffers:
            # A rate of 0 would erase u or v; so small a rate moves nothing that its number format can show.
            smallest = torch.finfo(buffers[0].dtype).eps * initial
            used = max(rate, smallest)
            growth = used / max(group.get("rate", initial), smallest)
            if growth != 1:
                torch._foreach_mul_(buffers, growth if holds_rate else 1 / growth)
        group["rate"] = used  # known to the host, where reading `lr` would wait for the device
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(used)
        else:
            group["lr"] = used


def set_weight_decay(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Every group decays its weights by `factor` times what it was built with."""
    for group in optimizer.param_groups:
        group["weight_decay"] = factor * group.setdefault("initial_weight_decay", group["weight_decay"])


def _momentum_buffers(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> list[Tensor]:
    states = [optimizer.state.get(parameter, {}) for parameter in group["params"]]
    return [state["momentum_buffer"] for state in states if state.get("momentum_buffer") is not None]


EAGER_STEPS = 3  # before capture: kernels are chosen, the optimizer's state and all buffers come into being


def step_of(trainee: Trainee) -> Step:
    """The function that makes one step and gives the batch's loss, still on the device."""
    eager = eager_step(trainee)
    return CapturedStep(eager, trainee.optimizer) if trainee.config.train.torch.cuda_graph else eager


def eager_step(trainee: Trainee) -> Step:
    """A step that the host calls operator by operator."""
    optimizer, scaler = trainee.optimizer, trainee.arithmetic.scaler
    forward_backward, update = trainee.parallelism.forward_backward, trainee.communicator.update

    def scaled() -> None:
        assert scaler is not None
        scaler.step(optimizer)
        scaler.update()

    own_update = optimizer.step if scaler is None else scaled

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = forward_backward(inputs, targets)
        update(optimizer, own_update)
        return loss

    return step


class CapturedStep:
    """Replays a step as one CUDA graph: one launch in place of a thousand. The first steps are eager."""

    def __init__(self, eager: Step, optimizer: torch.optim.Optimizer) -> None:
        self._eager = eager
        self._optimizer = optimizer
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._constants: tuple[float, ...] = ()
        self._calls = 0
        hold_rate_on(optimizer, torch.device("cuda"))

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Makes one step; the loss is a copy that later steps leave alone."""
        self._calls += 1
        if self._calls <= EAGER_STEPS:
            return self._on_own_stream(inputs, targets)
        if self._graph is None or self._constants != self._baked_in() or inputs.shape != self._inputs.shape:
            self._capture(inputs, targets)
        assert self._graph is not None
        if inputs.data_ptr() != self._inputs.data_ptr():
            self._inputs.copy_(inputs)
            self._targets.copy_(targets)
        self._graph.replay()
        return self._loss.clone()

    def _on_own_stream(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._eager(inputs, targets)
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _capture(self, inputs: Tensor, targets: Tensor) -> None:
        # References to all that the graph uses are kept: its memory must not be given to others.
        self._inputs, self._targets = inputs, targets
        self._constants = self._baked_in()
        self._optimizer.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = self._eager(self._inputs, self._targets)

    def _baked_in(self) -> tuple[float, ...]:
        """What a captured graph cannot take as a new value."""
        return tuple(group.get("weight_decay", 0.0) for group in self._optimizer.param_groups)
