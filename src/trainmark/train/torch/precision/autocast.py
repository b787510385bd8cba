"""Mixed precision by torch's autocast: what bf16-mixed and fp16-mixed have in common."""

from functools import partial

import torch

from trainmark.machine.instructions import ShortFormat, has_fast
from trainmark.train.torch.precision.tf32 import allow_tf32
from trainmark.train.torch.protocols import Arithmetic, Scaler


def build_autocast(device: torch.device, kind: ShortFormat, dtype: torch.dtype, scaler: Scaler | None) -> Arithmetic:
    """Products in `dtype` by autocast, the rest and the weights in fp32."""
    allow_tf32(convolutions=False, matrices=False)
    scaled = ", dynamic loss scale" if scaler else ""
    note = f"{kind} autocast, fp32 weights{scaled}{emulation(device, kind)}"
    return Arithmetic(note=note, forward=partial(torch.autocast, device.type, dtype=dtype), scaler=scaler)


def emulation(device: torch.device, kind: ShortFormat) -> str:
    """What a note adds where the device has no instructions for a format."""
    missing = device.type == "cpu" and not has_fast(kind)
    return f"; this CPU has no {kind} instructions: emulated in software" if missing else ""
