"""The cost of a model per sample: FLOPs by operator for each convention, counted on shapes alone."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import MODELS
from trainmark.workloads.flops import ai500, exact

# Batch normalisation in training refuses a single value per channel, so two samples are counted and halved.
SAMPLES = 2


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sums what each convention counts for every operator that runs inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.exact: Counter[str] = Counter()
        self.ai500: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.exact.update(exact.count(func, args, out))
        self.ai500.update(ai500.count(func, args, out))
        return out


def count_model(
    name: str, settings: Mapping[str, Setting], input_shape: tuple[int, ...] | None = None
) -> dict[str, Any]:
    """Parameters and FLOPs per sample of a registered model, `forward` and `training`, for each convention."""
    build = MODELS.load(name)
    shape = input_shape or default_input_shape(build)
    with torch.device("meta"):
        model = build(**settings)
        forward, backward = _Recorder(), _Recorder()
        with forward:
            outputs = _outputs_of(model, name, shape)
        with backward:
            outputs.sum().backward()  # type: ignore[no-untyped-call]
    return {
        "model": name,
        "input_shape": list(shape),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "conventions": {
            "exact": _exact_counts(forward.exact, backward.exact),
            "ai500": _ai500_counts(forward.ai500),
        },
    }


def _outputs_of(model: nn.Module, name: str, shape: tuple[int, ...]) -> Tensor:
    try:
        outputs: Tensor = model(torch.empty(SAMPLES, *shape))
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        size = " × ".join(map(str, shape))
        raise ConfigError(
            f"The model '{name}' cannot take an input of {size}: {reason}. Choose another --input."
        ) from error
    return outputs


def default_input_shape(build: Callable[..., Any]) -> tuple[int, ...]:
    """The input shape that a model's module states."""
    shape: tuple[int, ...] = sys.modules[build.__module__].INPUT_SHAPE
    return shape


def _exact_counts(forward: Counter[str], backward: Counter[str]) -> dict[str, Any]:
    total = sum(forward.values()) / SAMPLES
    return {
        "forward": total,
        "training": total + sum(backward.values()) / SAMPLES,
        "training_plain_3x": 3 * total,
        "operators": {name: flop / SAMPLES for name, flop in (forward + backward).items()},
        "rule": "multiply-add = 2; convolutions and matrix products; backward as executed",
    }


def _ai500_counts(forward: Counter[str]) -> dict[str, Any]:
    total = sum(forward.values()) / SAMPLES
    return {
        "forward": total,
        "training": 3 * total,
        "training_plain_3x": 3 * total,
        "operators": {name: 3 * flop / SAMPLES for name, flop in forward.items()},
        "rule": "AI500 Table 3; the source gives forward rules only, a backward pass counts as two forward passes",
    }
