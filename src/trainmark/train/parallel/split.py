"""How a model's layers are shared out to stages: consecutive parts whose costliest is as cheap as it can be."""

from collections.abc import Sequence
from itertools import accumulate

from torch import nn

from trainmark.spec.errors import PlanError
from trainmark.workloads.flops.by_layer import training_flop_by_layer


def balanced_split(costs: Sequence[float], parts: int) -> list[range]:
    """`parts` consecutive, non-empty ranges over all costs; the largest sum of a range is the smallest possible."""
    assert 1 <= parts <= len(costs)
    before = [0, *accumulate(costs)]
    # best[i]: the smallest largest part of the first i costs in the parts so far, and where the last of them starts.
    best: list[tuple[float, int]] = [(total, 0) for total in before]
    starts: list[list[int]] = []
    for part in range(2, parts + 1):
        starts.append([start for _, start in best])
        best = [
            min(
                ((max(best[start][0], before[end] - before[start]), start) for start in range(part - 1, end)),
                default=(float("inf"), 0),
            )
            for end in range(len(costs) + 1)
        ]
    starts.append([start for _, start in best])
    ranges: list[range] = []
    end = len(costs)
    for of_part in reversed(starts):
        ranges.insert(0, range(of_part[end], end))
        end = of_part[end]
    return ranges


def stages_of(model: nn.Module, stages: int, sample_shape: tuple[int, ...]) -> list[range]:
    """The layers of each stage, as positions in the sequential model, balanced by their training FLOPs."""
    if not isinstance(model, nn.Sequential) or type(model).forward is not nn.Sequential.forward:
        raise PlanError(
            f"Stages are cut from a plain sequence of layers, but the model is a {type(model).__name__}. "
            "Choose --set train.parallel=sharded or data."
        )
    units = _units(model)
    if len(units) < stages:
        raise PlanError(
            f"The model has {len(units)} layers with weights, too few for {stages} stages. "
            f"Choose --set train.stages={len(units)} or fewer, or --set train.parallel=sharded."
        )
    flop = training_flop_by_layer(model, sample_shape)
    split = balanced_split([sum(flop[layer] for layer in unit) for unit in units], stages)
    return [range(units[part[0]].start, units[part[-1]].stop) for part in split]


def _units(model: nn.Sequential) -> list[range]:
    """Runs of layers that stay together: one with weights and those without that follow it.

    So no stage is without weights, for which there would be no optimizer, and what is sent has passed its activation.
    """
    starts = [place for place, layer in enumerate(model) if any(True for _ in layer.parameters())]
    ends = [*starts[1:], len(model)]
    return [range(start if unit else 0, end) for unit, (start, end) in enumerate(zip(starts, ends, strict=True))]
