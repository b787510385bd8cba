"""The floating-point precisions: fp32, tf32, bf16 and fp16 by autocast, and fp16 throughout."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainmark.machine.instructions import ShortFormat, has_fast
from trainmark.spec.config import TrainConfig
from trainmark.train.torch.protocols import Arithmetic, Scaler

# How far a step's loss may be from fp32's, as a share of it. A format rounds by up to 2^-9 = 2.0e-3 (bf16) or 2^-11 =
# 4.9e-4 (fp16, tf32), in every layer; seen on the tiny workload: 2.8e-3 and 1.3e-4 (16 steps of four epochs).
OF_BF16, OF_FP16 = 0.01, 0.001


def tf32(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """fp32 tensors, products rounded to tf32 (10 bits of mantissa); needs a GPU."""
    assert device.type == "cuda", "checked by the plan"
    allow_tf32(convolutions=True, matrices=True)
    return Arithmetic(note="fp32 tensors, tf32 convolutions and matrix products", loss_tolerance=OF_FP16)


def allow_tf32(*, convolutions: bool, matrices: bool) -> None:
    """From here on, fp32 products on GPUs may be tf32 or not: torch's switches hold for the whole process."""
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
    """What a note adds where the device has no instructions for a format."""
    missing = device.type == "cpu" and not has_fast(kind)
    return f"; this CPU has no {kind} instructions: emulated in software" if missing else ""


def bf16_mixed(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in bf16 by autocast, the rest and the weights in fp32."""
    return build_autocast(device, "bf16", torch.bfloat16, None, OF_BF16)


def fp16_mixed(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Products in fp16 by autocast, the rest and the weights in fp32; the loss is scaled."""
    return build_autocast(device, "fp16", torch.float16, torch.amp.GradScaler(device.type), OF_FP16)


class HalfScaler(torch.amp.GradScaler):
    """torch's scaler, but it also takes the scale out of fp16 gradients: here there are no others."""

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        return super()._unscale_grads_(optimizer, inv_scale, found_inf, True)


def fp16(device: torch.device, settings: TrainConfig) -> Arithmetic:
    """Weights, activations and gradients in fp16; batch normalisation and the loss in fp32; the loss is scaled.

    Batch normalisation keeps its two weights and two running statistics in fp32, and takes and gives fp16: its kernels
    add up in fp32 anyway, cuDNN has no other, and a running variance in fp16 could not follow changes below 2^-11 of
    it. The loss is computed in fp32 from the outputs and scaled, so that small gradients stay above fp16's 6e-8. The
    fused optimizers take the scale out in fp32, inside their kernel; others take it out of the fp16 gradients.
    """
    allow_tf32(convolutions=False, matrices=False)
    note = "fp16 weights, activations and gradients; batch normalisation in fp32, dynamic loss scale"
    note += emulation(device, "fp16")
    return Arithmetic(note=note, convert=_halve, scaler=HalfScaler(device.type), loss_tolerance=OF_FP16)


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
