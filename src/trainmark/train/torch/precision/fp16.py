"""fp16: weights, activations and gradients in half precision, with no fp32 copy of the weights.

Batch normalisation keeps its two weights and two running statistics in fp32, and takes and gives fp16: its kernels
add up in fp32 anyway, cuDNN has no other, and a running variance in fp16 could not follow changes below 2^-11 of it.
The loss is computed in fp32 from the outputs and scaled, so that small gradients stay above fp16's 6e-8. The fused
optimizers take the scale out in fp32, inside their kernel; others take it out of the fp16 gradients.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainmark.spec.config import TrainConfig
from trainmark.train.torch.precision.autocast import emulation
from trainmark.train.torch.precision.tf32 import allow_tf32
from trainmark.train.torch.protocols import Arithmetic

# fp16 rounds by up to 2^-11 = 4.9e-4, in every layer. Seen on the tiny workload: 1.3e-4 (16 steps of four epochs).
LOSS_TOLERANCE = 0.001
# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


class HalfScaler(torch.amp.GradScaler):
    """torch's scaler, but it also takes the scale out of fp16 gradients: here there are no others."""

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, True)


def build(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Weights, activations and gradients in fp16; batch normalisation and the loss in fp32; the loss is scaled."""
    allow_tf32(convolutions=False, matrices=False)
    note = "fp16 weights, activations and gradients; batch normalisation in fp32, dynamic loss scale"
    note += emulation(device, "fp16")
    return Arithmetic(note=note, convert=_halve, scaler=HalfScaler(device.type))


def _halve(model: nn.Module) -> nn.Module:
    """The model with fp16 weights; it takes what it is given, and gives fp32."""
    for module in model.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if own and not isinstance(module, _BatchNorm):
            for tensor in own:
                if tensor.is_floating_point():
                    tensor.data = tensor.data.half()
            # On each layer, not on the model, so that a part of the model (a pipeline's stage) still works.
            module.register_forward_pre_hook(_to_half)
    model.register_forward_hook(_to_float)
    return model


def _to_half(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_cast(value, torch.float16) for value in inputs)


def _to_float(module: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> Any:
    return _cast(outputs, torch.float32)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
