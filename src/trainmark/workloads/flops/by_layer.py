"""The training cost of each layer of a sequential model, so that its layers can be shared out evenly."""

import copy

import torch
from torch import nn

from trainmark.workloads.flops.trace import SAMPLES, trace_training


def training_flop_by_layer(model: nn.Sequential, sample_shape: tuple[int, ...]) -> list[float]:
    """FLOPs per sample of each top-level layer, forward and backward, by the `exact` convention; counted on shapes."""
    layers = copy.deepcopy(model).to("meta").train()
    costs = dict.fromkeys(layers._modules, 0)
    for ran in trace_training(layers, layers, torch.empty(SAMPLES, *sample_shape, device="meta")).executed:
        if ran.layer is not None:
            costs[ran.layer] += sum(ran.exact.values())
    return [cost / SAMPLES for cost in costs.values()]
