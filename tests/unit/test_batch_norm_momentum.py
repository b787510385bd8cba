"""The momentum of batch normalisation: how much one batch counts in the running statistics."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.planned import planned_config
from trainmark.spec.errors import PlanError
from trainmark.spec.registries import PRECISIONS
from trainmark.train.torch.build import build_model, set_batch_norm_momentum

CPU = torch.device("cpu")


def normalisations(**train: Any) -> tuple[nn.Module, list[nn.BatchNorm2d]]:
    """The default workload's model in float64, and its batch normalisations."""
    config = planned_config(train=train)
    model = build_model(config, PRECISIONS.load("fp32")(CPU, config.train), CPU).double()
    return model, [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]


def inputs_of_one_step(model: nn.Module, layers: list[nn.BatchNorm2d]) -> list[Tensor]:
    """What each layer got in one forward and backward pass."""
    seen: dict[nn.Module, Tensor] = {}
    for layer in layers:
        layer.register_forward_pre_hook(lambda layer, inputs: seen.update({layer: inputs[0].detach()}))
    torch.manual_seed(1)
    images, labels = torch.randn(8, 3, 32, 32, dtype=torch.float64), torch.arange(8)
    F.cross_entropy(model.train()(images), labels).backward()
    return [seen[layer] for layer in layers]


@pytest.mark.parametrize("recompute", [False, True])
def test_after_one_step_a_batch_counts_by_the_momentum(recompute: bool) -> None:
    # Running statistics begin with mean 0 and variance 1; recomputed layers see the batch twice and count it once.
    model, layers = normalisations(batch_norm_momentum=0.25, torch={"recompute": recompute})
    assert len(layers) > 3
    for layer, inputs in zip(layers, inputs_of_one_step(model, layers), strict=True):
        assert layer.running_mean is not None and layer.running_var is not None
        assert torch.allclose(layer.running_mean, 0.25 * inputs.mean((0, 2, 3)), rtol=0, atol=1e-12)
        assert torch.allclose(layer.running_var, 0.75 + 0.25 * inputs.var((0, 2, 3)), rtol=0, atol=1e-12)


def test_unset_it_is_the_models_own() -> None:
    assert {layer.momentum for layer in normalisations()[1]} == {0.1}
    assert {layer.momentum for layer in normalisations(batch_norm_momentum=1)[1]} == {1.0}


def test_a_model_without_batch_normalisation_is_refused_also_if_its_card_does_not_say_so() -> None:
    with pytest.raises(PlanError, match=r"no batch normalisation, but train\.batch_norm_momentum is set\. Remove it\."):
        set_batch_norm_momentum(nn.Linear(2, 2), 0.1)
