"""Every precision: loss and quality near those of fp32, weights that learn, and names that stay."""

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.worker_group import run_workers
from trainmark.data.datasets.shapes import Shapes, ShapesSettings
from trainmark.data.split import SplitName
from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import OPTIMIZERS, PRECISIONS
from trainmark.train.torch.protocols import Arithmetic
from trainmark.train.torch.tasks import Classification
from trainmark.workloads.find import find_card

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# As the plan has it for so few channels: on CPUs channels-last is unsafe (spec/model_card.py).
LAYOUT = torch.channels_last if DEVICE.type == "cuda" else torch.contiguous_format
BATCH = 32
SETTINGS = TrainConfig(
    epochs=2,
    batch_size=BATCH,
    optimizer="sgd",
    learning_rate=0.05,
    reference_batch_size=BATCH,
    weight_decay=5e-4,
    schedule="",
)

ON_THIS_DEVICE = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(name == "tf32" and DEVICE.type == "cpu", reason="tf32 needs a GPU"),
    )
    for name in PRECISIONS
]
every_precision = pytest.mark.parametrize("name", ON_THIS_DEVICE)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def build(name: str) -> Arithmetic:
    arithmetic: Arithmetic = PRECISIONS.load(name)(DEVICE, SETTINGS)
    return arithmetic


# Chance, not bias: whatever changes a rounding moves the tiny workload's top-1 by 0.01 to 0.02, as another seed does.
QUALITY_TOLERANCE = 0.05


def small_model(width: int = 8) -> nn.Module:
    """The tiny workload's model, half as wide: software fp16 is slow."""
    torch.manual_seed(1)
    model: nn.Module = find_card("resnet-tiny").build("torch", {"width": width})
    return model.to(DEVICE, memory_format=LAYOUT)


@functools.cache
def images(split: SplitName, count: int) -> tuple[Tensor, Tensor]:
    """Shapes without noise: enough is learned in seconds to tell a precision that learns from one that does not."""
    settings = ShapesSettings(num_train=count, num_eval=count, noise=0.0, label_noise=0.0)
    data = Shapes(settings).load(split)
    samples = (torch.from_numpy(data.samples).to(DEVICE, torch.float32) - data.offset) / data.scale
    return samples.to(memory_format=LAYOUT), torch.from_numpy(data.labels).to(DEVICE)


def train_step(
    model: nn.Module, arithmetic: Arithmetic, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]
) -> float:
    inputs, targets = batch
    optimizer.zero_grad()
    with arithmetic.forward():
        loss = Classification.loss(model, inputs, targets)
    if arithmetic.scaler is None:
        loss.backward()
        optimizer.step()
    else:
        arithmetic.scaler.scale(loss).backward()
        arithmetic.scaler.step(optimizer)
        arithmetic.scaler.update()
    return loss.item()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    optimizer: torch.optim.Optimizer = OPTIMIZERS.load("sgd")(model.parameters(), SETTINGS)
    return optimizer


@every_precision
def test_single_steps_have_the_loss_of_fp32_within_the_stated_tolerance(name: str) -> None:
    samples, labels = images("train", 320)
    exact, other = build("fp32"), build(name)
    model = small_model()
    optimizer = optimizer_of(model)
    for start in range(0, 160, BATCH):
        batch = samples[start : start + BATCH], labels[start : start + BATCH]
        copied = other.convert(copy.deepcopy(model))
        build(name)  # switches of the process: each one's own
        changed = train_step(copied, other, optimizer_of(copied), batch)
        build("fp32")
        loss = train_step(model, exact, optimizer, batch)
        assert np.isfinite(changed)
        assert abs(changed / loss - 1) <= build(name).loss_tolerance


@every_precision
def test_a_few_samples_are_learned_by_heart(name: str) -> None:
    samples, labels = images("train", 320)
    arithmetic = build(name)
    model = arithmetic.convert(small_model())
    optimizer = optimizer_of(model)
    losses = [train_step(model, arithmetic, optimizer, (samples[:8], labels[:8])) for _ in range(40)]
    assert np.all(np.isfinite(losses))
    assert losses[-1] < 0.1 * losses[0]


@every_precision
def test_names_and_shapes_of_weights_stay(name: str) -> None:
    model = small_model()
    before = {key: value.shape for key, value in model.state_dict().items()}
    parameters = {key: id(parameter) for key, parameter in model.named_parameters()}
    converted = build(name).convert(model)
    assert {key: value.shape for key, value in converted.state_dict().items()} == before
    assert {key: id(parameter) for key, parameter in converted.named_parameters()} == parameters


@every_precision
def test_a_converted_model_can_be_copied_and_its_state_loaded(name: str) -> None:
    arithmetic = build(name)
    model = arithmetic.convert(small_model()).eval()
    twin = copy.deepcopy(model)
    for parameter in twin.parameters():
        parameter.data.mul_(2)
    twin.load_state_dict(model.state_dict())
    inputs = images("train", 320)[0][:4]
    with torch.inference_mode(), arithmetic.forward():
        assert torch.equal(twin(inputs), model(inputs))


@every_precision
def test_a_note_says_what_runs_here(name: str) -> None:
    note = build(name).note
    assert note
    assert "\n" not in note


@every_precision
def test_a_part_of_a_converted_model_works_on_what_the_part_before_gives(name: str) -> None:
    arithmetic = build(name)
    model = arithmetic.convert(small_model())
    layers = list(model.children())
    first, second = nn.Sequential(*layers[:3]), nn.Sequential(*layers[3:])
    samples, labels = images("train", 320)
    with arithmetic.forward():
        whole = Classification.loss(model, samples[:8], labels[:8])
        parts = Classification.loss_of_outputs(second(first(samples[:8])).float(), labels[:8])
    assert parts.item() == pytest.approx(whole.item(), rel=max(1e-6, build(name).loss_tolerance))


@every_precision
def test_activations_computed_again_give_the_same_gradients(name: str) -> None:
    arithmetic = build(name)
    model = arithmetic.convert(small_model())
    samples, labels = images("train", 320)

    def gradients(forward: Any) -> list[Tensor]:
        model.zero_grad()
        torch.manual_seed(3)
        with arithmetic.forward():
            loss = Classification.loss_of_outputs(forward(samples[:8]).float(), labels[:8])
        loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    kept = gradients(model)
    again = gradients(lambda inputs: checkpoint(model, inputs, use_reentrant=False))
    assert len(kept) == len(list(model.parameters()))
    # GPUs add up in an order that changes from call to call.
    is_same = torch.equal if DEVICE.type == "cpu" else functools.partial(torch.allclose, rtol=0.02, atol=1e-3)
    assert all(is_same(a, b) for a, b in zip(kept, again, strict=True))


def patterns(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noise over one of four patterns, the label: so easily told apart that seeds and roundings hardly matter."""
    four = F.interpolate(torch.randn(4, 3, 4, 4, generator=torch.Generator().manual_seed(0)), size=32)
    labels = torch.arange(count) % 4
    noise = torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    return (noise + 1.2 * four[labels]).to(DEVICE, memory_format=LAYOUT), labels.to(DEVICE)


@functools.cache
def quality_after_training(name: str) -> float:
    """Top-1 accuracy on 400 held-out images after 40 steps of 8; 0.99 or more in fp32, whatever the seed."""
    samples, labels = patterns(320, seed=1)
    arithmetic = build(name)
    model = arithmetic.convert(small_model())
    optimizer = optimizer_of(model)
    for step, rows in enumerate(torch.arange(320, device=DEVICE).view(40, 8)):
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / 40)
        train_step(model, arithmetic, optimizer, (samples[rows], labels[rows]))
    model.eval()
    samples, labels = patterns(400, seed=2)
    with torch.inference_mode(), arithmetic.forward():
        right = torch.cat([model(part).argmax(1) for part in samples.split(100)]) == labels
    return right.float().mean().item()


@every_precision
def test_quality_is_that_of_fp32_within_the_stated_tolerance(name: str) -> None:
    quality, exact = quality_after_training(name), quality_after_training("fp32")
    assert exact > 0.9  # chance is 0.25
    assert abs(quality - exact) <= QUALITY_TOLERANCE


def test_a_step_whose_scaled_gradients_overflow_is_skipped_and_the_scale_lowered() -> None:
    for name in ("fp16", "fp16-mixed"):
        arithmetic = build(name)
        model = arithmetic.convert(nn.Sequential(nn.Linear(4, 2)).to(DEVICE))
        optimizer = optimizer_of(model)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        # 65536 × 1e4 / 2 is beyond fp16's 65504.
        huge = 1e4 * torch.ones(2, 4, device=DEVICE), torch.tensor([0, 1], device=DEVICE)
        train_step(model, arithmetic, optimizer, huge)
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
        assert arithmetic.scaler is not None
        assert arithmetic.scaler.state_dict()["scale"] == 65536 / 2


def test_fp16_keeps_no_fp32_weights_but_those_of_batch_normalisation() -> None:
    model = build("fp16").convert(small_model())
    singles = {key for key, value in model.state_dict().items() if value.dtype == torch.float32}
    expected = {
        f"{key}.{part}"
        for key, module in model.named_modules()
        if isinstance(module, nn.BatchNorm2d)
        for part in ("weight", "bias", "running_mean", "running_var")
    }
    assert singles == expected
    assert model(images("train", 320)[0][:2]).dtype == torch.float32


def test_fp16_steps_by_an_optimizer_that_is_not_fused() -> None:
    arithmetic = build("fp16")
    model = arithmetic.convert(nn.Sequential(nn.Linear(2, 1, bias=False)).to(DEVICE))
    model[0].weight.data.fill_(0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125, fused=False)
    assert arithmetic.scaler is not None
    arithmetic.scaler.scale(model(torch.tensor([[1.0, 2.0]], device=DEVICE)).sum()).backward()
    arithmetic.scaler.step(optimizer)
    # The scaled gradient 65536 × 1 is infinite in fp16, so the first step is skipped; 32768 × 1 is not.
    assert model[0].weight.tolist() == [[0.5, 0.5]]
    arithmetic.scaler.update()
    optimizer.zero_grad()
    arithmetic.scaler.scale(model(torch.tensor([[1.0, 1.5]], device=DEVICE)).sum()).backward()
    arithmetic.scaler.step(optimizer)
    assert model[0].weight.tolist() == [[0.5 - 0.125 * 1.0, 0.5 - 0.125 * 1.5]]


def step_with_a_peer(rank: int, folder: str) -> None:
    """One step of each precision in one of two processes; the weights after it are left in a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    samples, labels = images("train", 320)
    weights = {}
    for name in PRECISIONS:
        if name == "tf32":
            continue
        arithmetic = PRECISIONS.load(name)(torch.device("cpu"), SETTINGS)
        model = arithmetic.convert(small_model().cpu())
        shared = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        optimizer = optimizer_of(shared)
        for step in range(2):
            start = 16 * step + 8 * rank
            batch = samples[start : start + 8].cpu(), labels[start : start + 8].cpu()
            train_step(shared, arithmetic, optimizer, batch)
        weights[name] = [parameter.detach() for parameter in model.parameters()]
    torch.save(weights, f"{folder}/weights-{rank}")
    dist.destroy_process_group()


def test_two_workers_end_a_step_with_the_same_weights(tmp_path: Path) -> None:
    run_workers(step_with_a_peer, (str(tmp_path),), 2)
    one, other = (torch.load(tmp_path / f"weights-{rank}") for rank in range(2))
    start = [parameter.detach().cpu() for parameter in small_model().parameters()]
    for name, weights in one.items():
        assert all(torch.equal(a, b) for a, b in zip(weights, other[name], strict=True)), name
        # The first steps of a scaled loss may be skipped: the scale is halved until nothing overflows.
        assert name.startswith("fp16") or not torch.equal(weights[0], start[0]), name
