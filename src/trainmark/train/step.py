"""One update of the weights: called operator by operator, or captured once and replayed as a whole."""

import torch
from torch import Tensor

from trainmark.train.rate import hold_rate_on
from trainmark.train.trainee import Step, Trainee

EAGER_STEPS = 3  # before capture: kernels are chosen, the optimizer's state and all buffers come into being


def step_of(trainee: Trainee) -> Step:
    """The function that makes one step and gives the batch's loss, still on the device."""
    eager = eager_step(trainee)
    return CapturedStep(eager, trainee.optimizer) if trainee.config.train.cuda_graph else eager


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
