"""The learning rate and the weight decay of an optimizer, changed between steps."""

from typing import Any

import torch
from torch import Tensor


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
