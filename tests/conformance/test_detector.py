"""Faster R-CNN: its published size, a loss that every weight has a part in, and detections that become right."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.worker_group import run_workers
from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import PRECISIONS
from trainmark.train.torch.detection.boxes import overlap
from trainmark.train.torch.models.faster_rcnn import FasterRcnn, faster_rcnn
from trainmark.workloads.extreme_weather import TINY

CHANNELS, HEIGHT, WIDTH = 16, 64, 96
NOTHING = [-1.0] * 5
LIGHT: dict[str, Any] = dict(TINY.model_settings)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

# ymin, xmin, ymax, xmax, class of the boxes of four images; some touch the border.
SCENES = [
    [[8.0, 10.0, 28.0, 34.0, 0.0], [36.0, 50.0, 60.0, 90.0, 1.0]],
    [[20.0, 30.0, 44.0, 70.0, 2.0]],
    [[5.0, 60.0, 25.0, 80.0, 3.0], [30.0, 6.0, 58.0, 30.0, 0.0], [36.0, 60.0, 64.0, 96.0, 1.0]],
    [[0.0, 0.0, 24.0, 24.0, 2.0]],
]


def targets_of(scenes: list[list[list[float]]], rows: int = 15) -> Tensor:
    return torch.tensor([[*boxes, *[NOTHING] * (rows - len(boxes))] for boxes in scenes])


def images_of(targets: Tensor) -> Tensor:
    """Noise, and in each box its class's own channel raised."""
    images = torch.randn(len(targets), CHANNELS, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(4)) * 0.1
    for image, boxes in zip(images, targets.tolist(), strict=True):
        for top, left, bottom, right, class_ in boxes:
            if class_ >= 0:
                image[int(class_), int(top) : int(bottom), int(left) : int(right)] += 1
    return images


def light(seed: int = 1, **settings: Any) -> FasterRcnn:
    torch.manual_seed(seed)
    model = faster_rcnn(**{**LIGHT, **settings})
    assert isinstance(model, FasterRcnn)
    return model


def gradients(model: nn.Module, images: Tensor, targets: Tensor, seed: int = 2) -> dict[str, Tensor]:
    """The gradient of each weight; fails where a weight has none."""
    torch.manual_seed(seed)
    model.zero_grad(set_to_none=True)
    loss = model(images, targets)
    assert loss.shape == ()
    assert math.isfinite(loss.item())
    loss.backward()
    found = {}
    for name, weight in model.named_parameters():
        assert weight.grad is not None, f"{name} has no gradient"
        assert weight.grad.isfinite().all(), f"{name} has a gradient that is no number"
        found[name] = weight.grad.clone()
    return found


# Its size


def test_it_has_the_published_number_of_parameters_and_those_of_batch_normalisation() -> None:
    # The convolutions of ResNet-50, stage by stage: a first block with a projection, then blocks without.
    convolutions = 3 * 64 * 49
    channels_in = 64
    for channels, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        convolutions += channels_in * channels + 9 * channels**2 + 4 * channels**2 + 4 * channels_in * channels
        convolutions += (blocks - 1) * (4 * channels**2 + 9 * channels**2 + 4 * channels**2)
        channels_in = 4 * channels
    pyramid = (256 + 512 + 1024 + 2048) * 256 + 4 * 256 + 4 * (9 * 256**2 + 256)
    region_head = (9 * 256**2 + 256) + (256 * 3 + 3) + (256 * 12 + 12)
    box_head = (256 * 49 * 1024 + 1024) + (1024**2 + 1024) + (1024 * 91 + 91) + (1024 * 364 + 364)
    assert convolutions + pyramid + region_head + box_head == 41_755_286  # fasterrcnn_resnet50_fpn of torchvision
    with torch.device("meta"):
        model = faster_rcnn(num_classes=90, channels=3)
    normalisation = sum(
        weight.numel()
        for layer in model.modules()
        if isinstance(layer, nn.BatchNorm2d)
        for weight in layer.parameters()
    )
    assert normalisation == 53_120
    assert sum(weight.numel() for weight in model.parameters()) == 41_808_406


def test_its_dense_part_has_five_levels_with_three_anchors_a_cell() -> None:
    with torch.device("meta"):
        outputs = light().dense(torch.empty(2, CHANNELS, HEIGHT, WIDTH))
    cells = [(16, 24), (8, 12), (4, 6), (2, 3), (1, 2)]
    assert [tuple(level.shape) for level in outputs[:5]] == [(2, 64, *size) for size in cells]
    assert [tuple(level.shape) for level in outputs[5:10]] == [(2, 3 * high * wide) for high, wide in cells]
    assert [tuple(level.shape) for level in outputs[10:]] == [(2, 3 * high * wide, 4) for high, wide in cells]


def test_its_box_head_takes_pooled_regions() -> None:
    with torch.device("meta"):
        model = faster_rcnn()
        assert model.pooled_shape == (256, 7, 7)
        classes, deltas = model.per_proposal(torch.empty(3, *model.pooled_shape))
    assert classes.shape == (3, 5)
    assert deltas.shape == (3, 5, 4)


@pytest.mark.parametrize(("depth", "width"), [(10, 8), (18, 8), (34, 4), (50, 4), (101, 4)])
def test_every_depth_trains(depth: int, width: int) -> None:
    targets = targets_of(SCENES[:2])
    gradients(light(depth=depth, width=width), images_of(targets), targets)


def test_an_unknown_depth_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no backbone of depth 12\. Choose .*10, 18, 34, 50, 101"):
        faster_rcnn(depth=12)


def test_sizes_that_no_stride_divides_are_taken() -> None:
    model = light()
    images = torch.randn(2, CHANNELS, 75, 101)
    gradients(model, images, targets_of(SCENES[:2]))
    assert model.eval()(images).shape == (2, 100, 6)


# Its loss


@pytest.mark.parametrize(
    "scenes",
    [
        [[], []],
        [SCENES[0], []],
        [[[10.0, 10.0, 10.0, 40.0, 1.0]], [[5.0, 5.0, 5.0, 5.0, 0.0]]],
        [[[0.0, 0.0, 64.0, 96.0, 3.0]], [[63.0, 95.0, 64.0, 96.0, 1.0]]],
    ],
    ids=["no boxes", "no boxes in one image", "boxes without area", "the whole image and one pixel"],
)
@pytest.mark.parametrize("device", DEVICES)
def test_every_weight_has_a_gradient_whatever_the_boxes(scenes: list[Any], device: str) -> None:
    targets = targets_of(scenes)
    gradients(light().to(device), images_of(targets).to(device), targets.to(device))


def test_every_weight_has_a_gradient_without_any_region() -> None:
    model = light()
    nn.init.constant_(model.region_head.deltas.bias, math.nan)  # no proposal is a box
    model.region_head.deltas.bias.requires_grad_(False)
    torch.manual_seed(0)
    targets = targets_of([[], []])
    model(images_of(targets), targets).backward()
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)
    assert model.take_seen() == (2, 0)


def test_boxes_without_area_and_more_rows_of_padding_change_nothing() -> None:
    flat = [[30.0, 30.0, 30.0, 50.0, 1.0]]
    plain, others = targets_of(SCENES), targets_of([scene + flat for scene in SCENES])
    images = images_of(plain)
    losses = []
    for targets in (plain, others):
        torch.manual_seed(3)
        losses.append(light()(images, targets).item())
    assert losses[0] == losses[1]


def test_the_count_of_rows_is_free() -> None:
    targets = targets_of(SCENES, rows=3)
    assert math.isfinite(light()(images_of(targets), targets).item())
    assert math.isfinite(light()(images_of(targets), targets[:, :0]).item())


def test_the_seed_decides_the_loss_and_all_gradients() -> None:
    targets = targets_of(SCENES)
    images, model = images_of(targets), light()
    first, again, other = (gradients(copy.deepcopy(model), images, targets, seed) for seed in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_the_layout_in_memory_does_not_matter() -> None:
    targets = targets_of(SCENES)
    images, model = images_of(targets), light()
    plain = gradients(copy.deepcopy(model), images, targets)
    last = gradients(
        model.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        images.contiguous(memory_format=torch.channels_last),
        targets,
    )
    for name, gradient in plain.items():
        torch.testing.assert_close(last[name], gradient, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("precision", ["bf16-mixed", "fp16-mixed", "fp16"])
@pytest.mark.parametrize("device", DEVICES)
def test_short_formats_give_about_the_loss_of_fp32(precision: str, device: str) -> None:
    settings = TrainConfig(
        epochs=1, batch_size=4, optimizer="sgd", learning_rate=0.1, schedule="", reference_batch_size=4
    )
    arithmetic = PRECISIONS.load(precision)(torch.device(device), settings)
    targets = targets_of(SCENES)
    images, model = images_of(targets).to(device), light().to(device)
    exact = model(images, targets.to(device)).item()
    model = arithmetic.convert(model)
    with arithmetic.forward():
        loss = model(images, targets.to(device))
        found = model.eval()(images)
    assert loss.dtype == torch.float32
    assert found.dtype == torch.float32
    assert loss.item() == pytest.approx(exact, rel=0.1)
    loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


# What it counts


def test_it_counts_the_images_and_regions_of_training_passes() -> None:
    model, targets = light(), targets_of(SCENES)
    images = images_of(targets)
    model(images, targets)
    model(images[:3], targets[:3])
    assert model.seen.dtype == torch.int64
    assert model.seen.tolist() == [7, 7 * LIGHT["sampled_regions"]]
    model.eval()
    model(images)
    model(images, targets)
    assert model.take_seen() == (7, 7 * LIGHT["sampled_regions"])
    assert model.take_seen() == (0, 0)


def test_what_it_counts_is_in_no_checkpoint() -> None:
    assert not [name for name in light().state_dict() if "seen" in name]


# Its detections


def test_detections_are_rows_of_fp32_best_first_and_padded() -> None:
    model = light(seed=3).eval()
    with torch.inference_mode():
        found = model(images_of(targets_of(SCENES)))
    assert found.shape == (4, 100, 6)
    assert found.dtype == torch.float32
    for image in found:
        rows = image[image[:, 5] >= 0]
        assert (image[len(rows) :] == -1).all()
        assert (rows[:, 4].diff() <= 0).all()
        assert (rows[:, 4] > 0.05).all()
        assert (rows[:, :2] < rows[:, 2:4]).all()
        assert (rows[:, :4] >= 0).all()
        assert (rows[:, [0, 2]] <= HEIGHT).all()
        assert (rows[:, [1, 3]] <= WIDTH).all()
        for class_ in range(4):
            own = rows[rows[:, 5] == class_][:, :4]
            assert (overlap(own, own).fill_diagonal_(0) <= 0.5).all()


def found_and_true(model: nn.Module, images: Tensor, targets: Tensor) -> tuple[list[float], int]:
    """The overlap of each true box with the best sure detection of its class, and how many sure ones there are."""
    with torch.inference_mode():
        detections = model.eval()(images)
    model.train()
    overlaps, sure_ones = [], 0
    for rows, boxes in zip(detections, targets, strict=True):
        sure = rows[rows[:, 4] > 0.5]
        sure_ones += len(sure)
        for box in boxes[boxes[:, 4] >= 0]:
            right = overlap(box[None, :4], sure[sure[:, 5] == box[4], :4])
            overlaps.append(right.max().item() if right.numel() else 0.0)
    return overlaps, sure_ones


@pytest.mark.slow
def test_it_learns_two_images_by_heart() -> None:
    targets = targets_of(SCENES[::2])
    images, model = images_of(targets), light()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(120):
        optimizer.zero_grad()
        model(images, targets).backward()
        optimizer.step()
    overlaps, sure_ones = found_and_true(model, images, targets)
    assert len(overlaps) == 5
    assert min(overlaps) > 0.5
    assert sure_ones == 5


# Two workers


def shared_case(rank: int) -> tuple[Tensor, Tensor]:
    """Worker 0 sees boxes, worker 1 none at all."""
    targets = targets_of(SCENES[:2] if rank == 0 else [[], []])
    return images_of(targets), targets


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = light()
    shared = DistributedDataParallel(model)
    steps = [gradients(shared, *shared_case(rank), seed=10 + step + rank) for step in range(2)]
    torch.save((steps, model.take_seen()), Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_two_workers_have_the_mean_of_their_gradients_also_where_one_sees_no_box(tmp_path: Path) -> None:
    run_workers(work, (str(tmp_path),), 2)
    (first, _), (second, _) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for step in range(2):
        alone = [gradients(light(), *shared_case(rank), seed=10 + step + rank) for rank in range(2)]
        for name in alone[0]:
            mean = (alone[0][name] + alone[1][name]) / 2
            torch.testing.assert_close(first[step][f"module.{name}"], mean, rtol=1e-4, atol=1e-6, msg=name)
            assert torch.equal(first[step][f"module.{name}"], second[step][f"module.{name}"])
