"""The floating-point precisions: fp32, tf32, bf16 and fp16 by autocast, and fp16 throughout."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainmark.machine.instructions import ShortFormat, has_fast
from trainmark.spec.config import TrainConfig
from trainmark.train.torch.protocols import Arithmetic, Scaler

# Tolerated relative deviation of a step's loss from fp32. Rounding is up to 2^-9 = 2.0e-3 (bf16) or 2^-11 = 4.9e-4
# (fp16, tf32) per layer; observed on the tiny workload: 2.8e-3 and 1.3e-4 (16 steps of four epochs).
BF16_TOLERANCE, FP16_TOLERANCE = 0.01, 0.001


def tf32(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """fp32 tensors, products rounded to tf32 (10 bits of mantissa); needs a GPU."""
    assert device.type == "cuda", "checked by the plan"
    allow_tf32(convolutions=True, matrices=True)
    return Arithmetic(note="fp32 tensors, tf32 convolutions and matrix products", loss_tolerance=FP16_TOLERANCE)


def allow_tf32(*, convolutions: bool, matrices: bool) -> None:
    """Allows or forbids tf32 for fp32 products on GPUs, in the whole process."""
    torch.backends.cudnn.allow_tf32 = convolutions
    torch.backends.cuda.matmul.allow_tf32 = matrices


def fp32(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Single precision throughout; tf32 is off."""
    allow_tf32(convolutions=False, matrices=False)
    return Arithmetic(note="fp32; tf32 off" if device.type == "cuda" else "fp32")


def build_autocast(
    device: torch.device, kind: ShortFormat, dtype: torch.dtype, scaler: Scaler | None, loss_tolerance: float
) -> Arithmetic:
    """Products in `dtype` by autocast, the rest and the weights in fp32."""
    allow_tf32(convolutions=False, matrices=False)
    scaled = ", dynamic loss scale" if scaler else ""
    note = f"{kind} autocast, fp32 weights{scaled}{emulation(device, kind)}"
    forward = partial(torch.autocast, device.type, dtype=dtype)
    return Arithmetic(note=note, forward=forward, scaler=scaler, loss_tolerance=loss_tolerance)


def emulation(device: torch.device, kind: ShortFormat) -> str:
    """A remark for the note if the device has no instructions for a format; otherwise empty."""
    missing = device.type == "cpu" and not has_fast(kind)
    return f"; this CPU has no {kind} instructions: emulated in software" if missing else ""


def bf16_mixed(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in bf16 by autocast, the rest and the weights in fp32."""
    return build_autocast(device, "bf16", torch.bfloat16, None, BF16_TOLERANCE)


def fp16_mixed(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in fp16 by autocast, the rest and the weights in fp32; the loss is scaled."""
    return build_autocast(device, "fp16", torch.float16, torch.amp.GradScaler(device.type), FP16_TOLERANCE)


class HalfScaler(torch.amp.GradScaler):
    """torch's GradScaler, but it also unscales fp16 gradients."""

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, True)


def fp16(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Weights, activations and gradients in fp16; batch normalisation and the loss in fp32; the loss is scaled.

    Batch normalisation keeps weights and running statistics in fp32, with fp16 inputs and outputs: its kernels sum in
    fp32 anyway, cuDNN has no others, and a running variance in fp16 would miss relative changes below 2^-11. The loss
    is computed in fp32 from the outputs and scaled, so that small gradients stay above fp16's 6e-8. Fused optimizers
    unscale in fp32, inside their kernel; for others the fp16 gradients are unscaled.
    """
    allow_tf32(convolutions=False, matrices=False)
    note = "fp16 weights, activations and gradients; batch normalisation in fp32, dynamic loss scale"
    note += emulation(device, "fp16")
    return Arithmetic(note=note, convert=_halve, scaler=HalfScaler(device.type), loss_tolerance=FP16_TOLERANCE)


def _halve(model: nn.Module) -> nn.Module:
    """Returns the model with fp16 weights; inputs may have any dtype, outputs are fp32."""
    for module in model.modules():
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if tensors and not isinstance(module, _BatchNorm):
            for tensor in tensors:
                if tensor.is_floating_point():
                    tensor.data = tensor.data.half()
            # On each layer, not on the model, so that a single pipeline stage works too.
            module.register_forward_pre_hook(_to_half)
    model.register_forward_hook(_to_float)
    return model


def _to_half(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_cast(value, torch.float16) for value in inputs)


def _to_float(module: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> Any:
    return _cast(outputs, torch.float32)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
