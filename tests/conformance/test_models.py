"""Every model: what its module states of it is true, so that plans made without torch can rely on it."""

import pytest
import torch
from torch import nn

from trainmark.spec.registries import MODELS


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_takes_the_input_shape_that_its_module_states(name: str) -> None:
    with torch.device("meta"):
        outputs = MODELS.load(name)()(torch.empty(2, *MODELS.constant(name, "INPUT_SHAPE")))
    assert outputs.shape[0] == 2


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_that_states_its_layers_has_as_many_with_weights(name: str) -> None:
    stated = MODELS.constant(name, "NUM_LAYERS")
    if stated is None:
        pytest.skip("its module states no NUM_LAYERS, so it is not trained in stages")
    with torch.device("meta"):
        model = MODELS.load(name)()
    assert isinstance(model, nn.Sequential)
    assert sum(any(True for _ in layer.parameters()) for layer in model) == stated


@pytest.mark.parametrize("name", list(MODELS))
def test_a_models_settings_are_read_from_its_source(name: str) -> None:
    arguments = MODELS.arguments(name)
    assert arguments is not None
    assert "num_classes" in arguments


def test_resnet18_has_its_published_number_of_parameters() -> None:
    with torch.device("meta"):
        model = MODELS.load("resnet18")()
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_689_512
