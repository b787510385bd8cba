"""The training cost of each layer of a sequential model, so that its layers can be shared out evenly."""

import copy

import torch
from torch import nn

from trainmark.workloads.flops.count import SAMPLES, _Recorder


def training_flop_by_layer(model: nn.Sequential, sample_shape: tuple[int, ...]) -> list[float]:
    """FLOPs per sample of each top-level layer, forward and backward, by the `exact` convention; counted on shapes."""
    layers = copy.deepcopy(model).to("meta").train()
    x = torch.empty(SAMPLES, *sample_shape, device="meta")
    costs = []
    for layer in layers:
        with _Recorder() as counted:
            out = layer(x.clone())  # a layer may work in place, which autograd forbids on its input
            if out.requires_grad:
                out.sum().backward()
        costs.append(sum(counted.exact.values()) / SAMPLES)
        # A layer computes its input's gradient only where an earlier layer learns from it.
        x = out.detach().requires_grad_(out.requires_grad)
    return costs
