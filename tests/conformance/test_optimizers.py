"""Every optimizer: its steps equal a float64 reference written from the formulas, and its state resumes identically."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing
from torch import distributed
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

from tests.worker_group import run_workers
from trainmark.spec.config import TorchConfig, TrainConfig
from trainmark.spec.registries import OPTIMIZERS
from trainmark.train.torch.step import put_rate_on, set_rate, set_weight_decay

Array = np.ndarray[Any, np.dtype[np.float64]]
Reference = Callable[[Array, list[Array], list[float], TrainConfig], Array]

SETTINGS = TrainConfig(
    epochs=1,
    batch_size=1,
    optimizer="",
    learning_rate=0.125,
    reference_batch_size=1,
    momentum=0.9,
    trust_coefficient=0.5,
    weight_decay=0.01,
    schedule="",
)
# Powers of two are the same in float32 and float64.
RATES = [0.03125, 0.0625, 0.125, 0.125, 0.25, 0.0625, 0.015625]
SHAPES = [(5, 4), (4,), (3, 2, 2)]


def sgd(weight: Array, gradients: list[Array], rates: list[float], settings: TrainConfig) -> Array:
    momentum, velocity = settings.momentum, np.zeros_like(weight)
    for gradient, rate in zip(gradients, rates, strict=True):
        decayed = gradient + settings.weight_decay * weight
        if settings.momentum_correction == "off":
            velocity = momentum * velocity + rate * decayed
            weight = weight - (momentum * velocity + rate * decayed if settings.nesterov else velocity)
        else:
            velocity = momentum * velocity + decayed
            weight = weight - rate * (momentum * velocity + decayed if settings.nesterov else velocity)
    return weight


def adam_steps(
    weight: Array, gradients: list[Array], rates: list[float], settings: TrainConfig, default_epsilon: float
) -> Array:
    epsilon = default_epsilon if settings.epsilon is None else settings.epsilon
    beta1, beta2, decay = settings.momentum, settings.beta2, settings.weight_decay
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        if settings.optimizer == "adam":
            gradient = gradient + decay * weight
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        direction = (mean / (1 - beta1**step)) / (np.sqrt(square / (1 - beta2**step)) + epsilon)
        if settings.optimizer == "adamw":
            direction = direction + decay * weight
        if settings.optimizer == "lamb" and weight.ndim > 1:
            direction = direction + decay * weight
            lengths = np.linalg.norm(weight), np.linalg.norm(direction)
            direction = direction * (lengths[0] / lengths[1] if all(lengths) else 1)
        weight = weight - rate * direction
    return weight


def adam(weight: Array, gradients: list[Array], rates: list[float], settings: TrainConfig) -> Array:
    return adam_steps(weight, gradients, rates, settings, 1e-8)


def lamb(weight: Array, gradients: list[Array], rates: list[float], settings: TrainConfig) -> Array:
    return adam_steps(weight, gradients, rates, settings, 1e-6)


def adagrad(weight: Array, gradients: list[Array], rates: list[float], settings: TrainConfig) -> Array:
    epsilon = 1e-10 if settings.epsilon is None else settings.epsilon
    total = np.zeros_like(weight)
    for gradient, rate in zip(gradients, rates, strict=True):
        decayed = gradient + settings.weight_decay * weight
        total = total + decayed**2
        weight = weight - rate * decayed / (np.sqrt(total) + epsilon)
    return weight


def lars(weight: Array, gradients: list[Array], rates: list[float], settings: TrainConfig) -> Array:
    decay, epsilon = settings.weight_decay, settings.epsilon or 0.0
    velocity = np.zeros_like(weight)
    for gradient, rate in zip(gradients, rates, strict=True):
        decayed, trust = gradient, 1.0
        if weight.ndim > 1:
            decayed = gradient + decay * weight
            lengths = np.linalg.norm(weight), np.linalg.norm(gradient)
            if all(lengths):
                trust = settings.trust_coefficient * lengths[0] / (lengths[1] + decay * lengths[0] + epsilon)
        if settings.momentum_correction == "on":
            velocity = settings.momentum * velocity + trust * decayed
            weight = weight - rate * velocity
        else:
            velocity = settings.momentum * velocity + rate * trust * decayed
            weight = weight - velocity
    return weight


REFERENCES: dict[str, Reference] = {
    "sgd": sgd,
    "adam": adam,
    "adamw": adam,
    "adagrad": adagrad,
    "lars": lars,
    "lamb": lamb,
}
CORRECTIONS = ("as-published", "on", "off")
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"momentum_correction": each}) for name in OPTIMIZERS for each in CORRECTIONS),
    *(("sgd", {"nesterov": True, "momentum_correction": each}) for each in CORRECTIONS),
    ("sgd", {"nesterov": True, "momentum": 0.0}),
    ("sgd", {"momentum": 0.0, "momentum_correction": "off"}),
    ("lars", {"momentum": 0.0, "momentum_correction": "on"}),
    *((name, {"weight_decay": 0.0}) for name in OPTIMIZERS),
    *((name, {"epsilon": 0.25}) for name in ("adam", "adamw", "adagrad", "lars", "lamb")),
    *((name, {"beta2": 0.5, "momentum": 0.6}) for name in ("adam", "adamw", "lamb")),
    ("lars", {"trust_coefficient": 0.125}),
    *((name, {"torch": TorchConfig(fused_optimizer=False)}) for name in OPTIMIZERS),
]


def recipe(name: str, changes: dict[str, Any] | None = None) -> TrainConfig:
    return SETTINGS.model_copy(update={"optimizer": name, **(changes or {})})


def weights_and_gradients() -> tuple[list[Array], list[list[Array]]]:
    """A matrix, a bias, and a weight that is zero at first and has no gradient in step 3; then each one's gradients."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape) for shape in SHAPES]
    gradients = [[rng.standard_normal(shape) for _ in RATES] for shape in SHAPES]
    weights[2][:] = 0
    gradients[2][2][:] = 0
    return weights, gradients


def as_parameters(weights: list[Array], dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.from_numpy(each.copy()).to(dtype)) for each in weights]


def build(parameters: list[torch.nn.Parameter], settings: TrainConfig) -> torch.optim.Optimizer:
    optimizer = OPTIMIZERS.load(settings.optimizer)(iter(parameters), settings)
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer


def advance(
    parameters: list[torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    gradients: list[list[Array]],
    correction: str,
    steps: range | None = None,
    rates: list[float] = RATES,
) -> None:
    for step in steps or range(len(rates)):
        for parameter, of_parameter in zip(parameters, gradients, strict=True):
            gradient = torch.from_numpy(of_parameter[step]).to(parameter.device, parameter.dtype)
            if isinstance(parameter, DTensor):
                gradient = distribute_tensor(gradient, parameter.device_mesh, parameter.placements)
            parameter.grad = gradient
        set_rate(optimizer, rates[step], correction)
        optimizer.step()


def trained(settings: TrainConfig, rates: list[float] = RATES) -> list[torch.nn.Parameter]:
    weights, gradients = weights_and_gradients()
    parameters = as_parameters(weights)
    advance(parameters, build(parameters, settings), gradients, settings.momentum_correction, rates=rates)
    return parameters


def check_against_reference(settings: TrainConfig, rates: list[float] = RATES) -> None:
    assert settings.optimizer in REFERENCES, (
        f"optimizer {settings.optimizer!r} has no reference: write its formulas in float64 into REFERENCES"
    )
    parameters = trained(settings, rates)
    for parameter, weight, gradients in zip(parameters, *weights_and_gradients(), strict=True):
        expected = REFERENCES[settings.optimizer](weight, gradients, rates, settings)
        assert np.abs(expected - weight).max() > 0.01
        np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=str)
def test_steps_equal_the_float64_reference(name: str, changes: dict[str, Any]) -> None:
    check_against_reference(recipe(name, changes))


@pytest.mark.parametrize(("name", "correction"), [("sgd", "off"), ("lars", "on")])
def test_momentum_survives_rates_of_zero(name: str, correction: str) -> None:
    rates = [0.0625, 0.0, 0.0, 0.125, 0.25, 0.0, 0.03125]
    check_against_reference(recipe(name, {"momentum_correction": correction}), rates)


@pytest.mark.parametrize(
    ("name", "scale"), [("adam", 1e-8), ("adamw", 1e-8), ("adagrad", 1e-10), ("lars", 1e-8), ("lamb", 1e-6)]
)
def test_gradients_as_small_as_epsilon_show_its_default(name: str, scale: float) -> None:
    settings = recipe(name, {"weight_decay": 0.0})
    weights, gradients = weights_and_gradients()
    gradients = [[scale * each for each in of_weight] for of_weight in gradients]
    parameters = as_parameters(weights)
    advance(parameters, build(parameters, settings), gradients, "as-published")
    expected = REFERENCES[name](weights[0], gradients[0], RATES, settings)
    assert np.abs(expected - weights[0]).max() > 0.01
    np.testing.assert_allclose(parameters[0].detach().numpy(), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_saved_state_resumes_bit_identically(name: str, correction: str) -> None:
    settings = recipe(name, {"momentum_correction": correction})
    weights, gradients = weights_and_gradients()
    before = as_parameters(weights)
    first = build(before, settings)
    set_weight_decay(first, 2.0)
    advance(before, first, gradients, correction, range(3))
    saved = io.BytesIO()
    torch.save(first.state_dict(), saved)
    saved.seek(0)

    after = [torch.nn.Parameter(each.detach().clone()) for each in before]
    second = build(after, settings)
    second.load_state_dict(torch.load(saved, weights_only=True))
    for parameters, optimizer in ((before, first), (after, second)):
        set_weight_decay(optimizer, 3.0)
        advance(parameters, optimizer, gradients, correction, range(3, len(RATES)))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not torch.equal(after[0], as_parameters(weights)[0])


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_rate_in_a_tensor_steps_like_a_number_and_stays_the_same_tensor(name: str, correction: str) -> None:
    settings = recipe(name, {"momentum_correction": correction})
    weights, gradients = weights_and_gradients()
    parameters = as_parameters(weights)
    optimizer = build(parameters, settings)
    put_rate_on(optimizer, torch.device("cpu"))
    rates = [group["lr"] for group in optimizer.param_groups]
    advance(parameters, optimizer, gradients, correction)
    assert all(group["lr"] is rate for group, rate in zip(optimizer.param_groups, rates, strict=True))
    assert [float(rate) for rate in rates] == [RATES[-1]] * len(rates)
    for parameter, expected in zip(parameters, trained(settings), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_weight_decay_factor_is_relative_to_the_settings(name: str) -> None:
    weights, gradients = weights_and_gradients()
    parameters = as_parameters(weights)
    optimizer = build(parameters, recipe(name))
    undecayed = [group["weight_decay"] == 0 for group in optimizer.param_groups]
    set_weight_decay(optimizer, 3.0)
    set_weight_decay(optimizer, 2.0)
    assert [group["weight_decay"] == 0 for group in optimizer.param_groups] == undecayed
    advance(parameters, optimizer, gradients, "as-published")
    for parameter, expected in zip(parameters, trained(recipe(name, {"weight_decay": 0.02})), strict=True):
        assert torch.equal(parameter, expected)
    assert not torch.equal(parameters[0], trained(recipe(name))[0])


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_step_whose_gradients_overflow_changes_nothing(name: str, device: str) -> None:
    weights, gradients = weights_and_gradients()
    parameters = [torch.nn.Parameter(each.detach().to(device)) for each in as_parameters(weights)]
    optimizer = build(parameters, recipe(name))
    scaler = torch.amp.GradScaler(device, init_scale=4.0)
    scaler.scale(torch.ones((), device=device))
    for step in (None, *range(len(RATES)), None):
        for parameter, of_parameter in zip(parameters, gradients, strict=True):
            overflown = torch.full_like(parameter, np.inf)
            scaled = overflown if step is None else torch.from_numpy(of_parameter[step]) * scaler.get_scale()
            parameter.grad = scaled.to(parameter)
        set_rate(optimizer, RATES[step or 0], "as-published")
        scaler.step(optimizer)
        scaler.update()
    for parameter, expected in zip(parameters, trained(recipe(name)), strict=True):
        torch.testing.assert_close(parameter.detach().cpu(), expected.detach(), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["sgd", "lars"])
def test_half_precision_steps_like_the_reference_where_norms_exceed_its_range(name: str) -> None:
    rng = np.random.default_rng(0)
    weight = 128 + 16 * rng.standard_normal((512, 512))  # ‖weight‖ ≈ 66,000; the largest float16 is 65,504
    gradients = [[8 + rng.standard_normal(weight.shape) for _ in range(2)]]
    parameters = as_parameters([weight], torch.float16)
    advance(parameters, build(parameters, recipe(name)), gradients, "as-published", range(2))
    expected = REFERENCES[name](weight, gradients[0], RATES[:2], recipe(name))
    assert np.linalg.norm(weight) > 65504
    np.testing.assert_allclose(parameters[0].detach().numpy(), expected, rtol=0, atol=0.25)


def train_sharded(rank: int, folder: str) -> None:
    """One of two workers: every optimizer's weights after training with shards, gathered, are saved."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    found = {}
    for name in OPTIMIZERS:
        for correction in CORRECTIONS:
            settings = recipe(name, {"momentum_correction": correction})
            weights, gradients = weights_and_gradients()
            # Worker 1 holds 2 of the matrix's 5 rows.
            parameters = [
                torch.nn.Parameter(distribute_tensor(each, mesh, [Shard(0)])) for each in as_parameters(weights)
            ]
            advance(parameters, build(parameters, settings), gradients, correction)
            found[name, correction] = [each.full_tensor().detach() for each in parameters]
    torch.save(found, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_sharded_parameters_step_like_whole_ones(tmp_path: Path) -> None:
    run_workers(train_sharded, (str(tmp_path),), 2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name in OPTIMIZERS:
            for correction in CORRECTIONS:
                expected = trained(recipe(name, {"momentum_correction": correction}))
                torch.testing.assert_close(found[name, correction], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_captured_step_follows_the_rate(name: str, correction: str) -> None:
    settings = recipe(name, {"momentum_correction": correction})
    weights, gradients = weights_and_gradients()
    parameters = [torch.nn.Parameter(each.detach().cuda()) for each in as_parameters(weights)]
    optimizer = build(parameters, settings)
    put_rate_on(optimizer, torch.device("cuda"))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        advance(parameters, optimizer, gradients, correction, range(1))
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            optimizer.step()
        for step in range(1, len(RATES)):
            for parameter, of_parameter in zip(parameters, gradients, strict=True):
                assert parameter.grad is not None
                parameter.grad.copy_(torch.from_numpy(of_parameter[step]))
            set_rate(optimizer, RATES[step], correction)
            graph.replay()
    torch.cuda.synchronize()
    for parameter, expected in zip(parameters, trained(settings), strict=True):
        torch.testing.assert_close(parameter.detach().cpu(), expected.detach(), rtol=1e-5, atol=2e-6)
