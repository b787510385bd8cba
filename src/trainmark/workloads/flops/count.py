"""The cost of a model per sample: FLOPs, parameters, kept activations and moved bytes, counted on shapes alone."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.units import show_shape
from trainmark.workloads.find import find_card
from trainmark.workloads.flops.trace import SAMPLES, Executed, Trace, top_layers, trace_training

EXACT_RULE = "multiply-add = 2; convolutions and matrix products; backward as executed"
AI500_RULE = "AI500 Table 3; the source gives forward rules only, a backward pass counts as two forward passes"


def count_model(
    name: str, settings: Mapping[str, Setting], input_shape: tuple[int, ...] | None = None
) -> dict[str, Any]:
    """Parameters, FLOPs by convention, kept activations and arithmetic intensity of a model, per sample and by layer.

    A model whose cost depends on the data offers `dense` and `per_proposal`: its counts are those of the dense part,
    and each convention has those of one proposal beside them.
    """
    card = find_card(name)
    shape = input_shape or card.input_shape
    with torch.device("meta"):
        model = card.build("torch", settings).train()
        traced = _traced(model, name, shape)
        conventions = _conventions(traced.executed)
        if hasattr(model, "per_proposal"):
            _add_one_proposal(model, conventions)
    layers = top_layers(model)
    return {
        "model": name,
        "input_shape": list(shape),
        "parameters": _num_parameters(model),
        "activation_bytes": sum(traced.kept_bytes.values()) // SAMPLES,
        "moved_bytes": _moved(traced.executed),
        "arithmetic_intensity": _intensity(traced.executed),
        "conventions": conventions,
        "layers": [_layer(layers[key], key, traced) for key in traced.output_shapes],
    }


class SampleCost(NamedTuple):
    """The cost of training one sample: FLOPs by convention, and bytes kept for the backward pass."""

    training_flop: dict[str, float]
    activation_bytes: int


def count_sample(model: nn.Module, name: str, shape: tuple[int, ...]) -> SampleCost:
    """The cost of one sample of this shape; the model is on the meta device."""
    with torch.device("meta"):
        traced = _traced(model, name, shape)
    flop = {convention: float(counts["training"]) for convention, counts in _conventions(traced.executed).items()}
    return SampleCost(flop, sum(traced.kept_bytes.values()) // SAMPLES)


def training_flop_by_layer(model: nn.Sequential, sample_shape: tuple[int, ...]) -> list[float]:
    """FLOPs per sample of each top-level layer, forward and backward, by the `exact` convention; counted on shapes."""
    layers = copy.deepcopy(model).to("meta").train()
    costs = dict.fromkeys(layers._modules, 0)
    for ran in trace_training(layers, layers, torch.empty(SAMPLES, *sample_shape, device="meta")).executed:
        if ran.layer is not None:
            costs[ran.layer] += sum(ran.exact.values())
    return [cost / SAMPLES for cost in costs.values()]


def memory_by_layer(model: nn.Sequential, sample_shape: tuple[int, ...], samples: int) -> list[float]:
    """Bytes of each top-level layer in training: what a batch keeps, and fp32 weights with gradient and two states."""
    layers = copy.deepcopy(model).to("meta").train()
    kept = trace_training(layers, layers, torch.empty(SAMPLES, *sample_shape, device="meta")).kept_bytes
    return [
        kept.get(name, 0) / SAMPLES * samples + 16 * _num_parameters(layer) for name, layer in layers.named_children()
    ]


def _traced(model: nn.Module, name: str, shape: tuple[int, ...]) -> Trace:
    try:
        return trace_training(model, getattr(model, "dense", model), torch.empty(SAMPLES, *shape))
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigError(
            f"The model '{name}' cannot take an input of {show_shape(shape)}: {reason}. Choose images of another shape."
        ) from error


def _add_one_proposal(model: Any, conventions: dict[str, dict[str, Any]]) -> None:
    """Adds the FLOPs per proposal; its gradient continues into the dense part."""
    pooled = torch.empty(SAMPLES, *model.pooled_shape, requires_grad=True)
    for convention, counts in _conventions(trace_training(model, model.per_proposal, pooled).executed).items():
        conventions[convention]["per_proposal"] = {key: counts[key] for key in ("forward", "training", "operators")}


def _conventions(executed: Iterable[Executed]) -> dict[str, dict[str, Any]]:
    exact: dict[str, Counter[str]] = {"forward": Counter(), "backward": Counter()}
    table_3: Counter[str] = Counter()
    for ran in executed:
        exact[ran.phase].update(ran.exact)
        if ran.phase == "forward":
            table_3.update(ran.ai500)
    # AI500 has no rule for the backward pass, which is taken as two forward passes.
    twice = Counter({kind: 2 * flop for kind, flop in table_3.items()})
    return {
        "exact": _counts(exact["forward"], exact["backward"], EXACT_RULE),
        "ai500": _counts(table_3, twice, AI500_RULE),
    }


def _counts(forward: Counter[str], backward: Counter[str], rule: str) -> dict[str, Any]:
    total = sum(forward.values()) / SAMPLES
    return {
        "forward": total,
        "training": total + sum(backward.values()) / SAMPLES,
        "training_plain_3x": 3 * total,
        "operators": {kind: flop / SAMPLES for kind, flop in (forward + backward).items()},
        "operators_forward": {kind: flop / SAMPLES for kind, flop in forward.items()},
        "rule": rule,
    }


def _layer(layer: nn.Module, name: str, traced: Trace) -> dict[str, Any]:
    """One row of the table of layers; FLOPs by the `exact` convention."""
    executed = [ran for ran in traced.executed if ran.layer == name]
    return {
        "layer": name,
        "kind": type(layer).__name__,
        "output_shape": list(traced.output_shapes[name]),
        "parameters": _num_parameters(layer),
        "forward": _exact_flop(ran for ran in executed if ran.phase == "forward"),
        "training": _exact_flop(executed),
        "activation_bytes": traced.kept_bytes.get(name, 0) // SAMPLES,
        "arithmetic_intensity": _intensity(executed),
    }


def _num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _exact_flop(executed: Iterable[Executed]) -> float:
    return sum(sum(ran.exact.values()) for ran in executed) / SAMPLES


def _moved(executed: Iterable[Executed]) -> dict[str, int]:
    """Bytes that a forward pass reads and writes: of activations for each sample, of weights for each batch."""
    moved = [(ran.activation_bytes, ran.weight_bytes) for ran in executed]
    return {
        "activations_per_sample": sum(activations for activations, _ in moved) // SAMPLES,
        "weights_per_batch": sum(weights for _, weights in moved),
    }


def _intensity(executed: Iterable[Executed]) -> float:
    """Forward FLOPs per byte moved, for a batch of one; 0 if nothing is moved."""
    ran = [each for each in executed if each.phase == "forward"]
    moved = sum(_moved(ran).values())
    return _exact_flop(ran) / moved if moved else 0.0
