"""One forward and backward pass of a whole model, as the modes of data parallelism make it."""

from torch import Tensor, nn

from trainmark.train.parallelism import Parts


def one_pass(model: nn.Module, parts: Parts, inputs: Tensor, targets: Tensor) -> Tensor:
    """Gradients are added to those of the step's earlier passes; this pass's part of the mean loss comes back."""
    scaler, passes = parts.arithmetic.scaler, parts.settings.accumulation
    with parts.arithmetic.forward():
        loss = parts.task.loss(model, inputs, targets)
    if passes > 1:
        loss = loss / passes
    scaled = loss if scaler is None else scaler.scale(loss)
    scaled.backward()  # type: ignore[no-untyped-call]
    return loss.detach()
