"""Padding of unlike images: masked, it changes nothing; the gradient of unlike passes is that of the samples."""

import pytest
import torch
from torch import Tensor, nn

from trainmark.spec.registries import MODELS, TASKS
from trainmark.train.torch.padding import PaddingMask, zero_padding
from trainmark.train.torch.parallel.data import mean_loss, one_pass
from trainmark.train.torch.protocols import Arithmetic, Parts, Pass
from trainmark.workloads.find import find_card

SIZES = ((48, 64), (64, 40), (33, 57), (64, 64))
SHALLOW = ("resnet-tiny", "resnet18", "densenet121")  # one of each kind of block


def unlike_images(*sizes: tuple[int, int], seed: int = 1) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(3, *size, generator=random) for size in sizes]


def collated(images: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The images in the top left corners of one tensor, and their sizes; what is beyond them is not zero yet."""
    sizes = torch.tensor([image.shape[1:] for image in images])
    padded = torch.full((len(images), 3, *sizes.amax(0).tolist()), 7.0)
    for number, image in enumerate(images):
        padded[number, :, : image.shape[1], : image.shape[2]] = image
    return zero_padding(padded, sizes), sizes


def model_of(name: str) -> nn.Module:
    torch.manual_seed(3)
    model: nn.Module = find_card(name).build("torch", {"num_classes": 5})
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):  # as after training: the identity would hide what padding does
            layer.running_mean.uniform_(-0.3, 0.3)
            layer.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.3, 0.3)
    return model


@pytest.mark.parametrize("name", SHALLOW)
def test_masked_padding_does_not_change_a_prediction(name: str) -> None:
    mask, images = PaddingMask(), unlike_images(*SIZES)
    model = mask.attach(model_of(name)).eval()
    inputs, sizes = collated(images)
    with torch.inference_mode():
        alone = torch.cat([model(image[None]) for image in images])
        with mask.of(inputs, sizes):
            masked = model(inputs)
        unmasked = model(inputs)
    torch.testing.assert_close(masked, alone, rtol=1e-4, atol=1e-5)
    assert (unmasked - alone).abs().max() > 1e-2  # the mask is what makes them equal


@pytest.mark.parametrize("name", SHALLOW)
def test_masked_padding_changes_neither_gradients_nor_running_statistics(name: str) -> None:
    images = torch.stack(unlike_images((40, 56), (40, 56), (40, 56))).double()
    larger = torch.zeros(3, 3, 64, 72, dtype=torch.float64)
    larger[:, :, :40, :56] = images
    found = []
    for inputs, sizes in ((images, None), (larger, torch.tensor([(40, 56)] * 3))):
        mask = PaddingMask()
        model = mask.attach(model_of(name).double()).train()
        with mask.of(inputs, sizes):
            nn.functional.cross_entropy(model(inputs), torch.arange(3)).backward()
        gradients = {f"gradient of {key}": value.grad for key, value in model.named_parameters()}
        found.append({**gradients, **dict(model.named_buffers())})
    for key, expected in found[0].items():
        torch.testing.assert_close(found[1][key], expected, rtol=1e-6, atol=1e-8, msg=key)


def test_every_model_for_any_shape_trains_on_two_shapes_and_averages_them_away() -> None:
    able = [name for name in MODELS if find_card(name).any_shape]
    assert {"resnet-tiny", "resnet18", "resnet50-v1.5", "densenet121"} <= set(able)
    for name in able:
        with torch.device("meta"):
            model = find_card(name).build("torch", {"num_classes": 5})
            for size in ((64, 96), (130, 70)):
                assert model(torch.empty(2, 3, *size)).shape == (2, 5)


def test_zeros_are_put_beyond_each_image_only() -> None:
    images = torch.ones(2, 1, 3, 4)
    zero_padding(images, torch.tensor([(2, 4), (3, 1)]))
    assert images[0, 0].tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert images[1, 0].tolist() == [[1, 0, 0, 0]] * 3


def parts() -> Parts:
    given = dict.fromkeys(Parts.__dataclass_fields__)
    return Parts(**{**given, "task": TASKS.load("classification"), "arithmetic": Arithmetic("")})


def test_passes_of_unlike_numbers_have_the_gradient_and_the_loss_of_all_samples() -> None:
    torch.manual_seed(2)
    model, inputs, targets = nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), torch.randn(8, 3, 2, 2), torch.arange(8) % 5
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    whole = model[1].weight.grad.clone()
    model.zero_grad()
    cuts = (slice(0, 1), slice(1, 6), slice(6, 8))
    passes = [Pass(inputs[cut], targets[cut], weight=(cut.stop - cut.start) / 8) for cut in cuts]
    losses = [one_pass(model, parts(), each) for each in passes]
    torch.testing.assert_close(model[1].weight.grad, whole)
    torch.testing.assert_close(mean_loss(losses), loss.detach())


def test_a_pass_of_weight_zero_leaves_no_gradient() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    loss = one_pass(model, parts(), Pass(torch.randn(1, 3, 2, 2), torch.tensor([1]), weight=0.0))
    assert loss.loss.isfinite() and not model[1].weight.grad.any()
