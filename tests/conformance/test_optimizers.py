"""Every optimizer: its steps equal a float64 reference written from the formulas, and its state resumes identically."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import OPTIMIZERS

SETTINGS = TrainConfig(
    epochs=1,
    batch_size=1,
    optimizer="",
    learning_rate=0.1,
    reference_batch_size=1,
    momentum=0.9,
    weight_decay=0.01,
    schedule="",
)
Array = np.ndarray[Any, np.dtype[np.float64]]


def sgd(weight: Array, gradients: list[Array]) -> Array:
    velocity = np.zeros_like(weight)
    for step, gradient in enumerate(gradients):
        decayed = gradient + 0.01 * weight
        velocity = decayed if step == 0 else 0.9 * velocity + decayed
        weight = weight - 0.1 * velocity
    return weight


REFERENCES: dict[str, Callable[[Array, list[Array]], Array]] = {"sgd": sgd}


def weights_and_gradients() -> tuple[Array, list[Array]]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 4)), [rng.standard_normal((5, 4)) for _ in range(6)]


def advance(parameter: torch.nn.Parameter, optimizer: torch.optim.Optimizer, gradients: list[Array]) -> None:
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient).to(parameter.dtype)
        optimizer.step()


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_steps_equal_the_float64_reference(name: str) -> None:
    weight, gradients = weights_and_gradients()
    parameter = torch.nn.Parameter(torch.from_numpy(weight).float())
    advance(parameter, OPTIMIZERS.load(name)([parameter], SETTINGS), gradients)
    assert np.allclose(parameter.detach().numpy(), REFERENCES[name](weight, gradients), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_saved_state_resumes_bit_identically(name: str) -> None:
    weight, gradients = weights_and_gradients()
    straight = torch.nn.Parameter(torch.from_numpy(weight).float())
    advance(straight, OPTIMIZERS.load(name)([straight], SETTINGS), gradients)

    before = torch.nn.Parameter(torch.from_numpy(weight).float())
    first = OPTIMIZERS.load(name)([before], SETTINGS)
    advance(before, first, gradients[:3])
    saved = io.BytesIO()
    torch.save(first.state_dict(), saved)
    saved.seek(0)
    after = torch.nn.Parameter(before.detach().clone())
    second = OPTIMIZERS.load(name)([after], SETTINGS)
    second.load_state_dict(torch.load(saved, weights_only=True))
    advance(after, second, gradients[3:])
    assert torch.equal(after, straight)
