"""Every workload: its FLOPs agree with the framework's counter, and it can learn eight samples by heart."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tests.planned import planned_config
from trainmark.data.folders import generate_missing, with_folder
from trainmark.data.split import Split, StoredSplit
from trainmark.plan.explain import Source
from trainmark.plan.resolve import resolve_config
from trainmark.spec.registries import DATASETS, MODELS, OPTIMIZERS, QUALITIES, TASKS, WORKLOADS
from trainmark.train.open_data import read_whole
from trainmark.train.torch.batches import ResidentBatches
from trainmark.workloads.find import find_card
from trainmark.workloads.flops.count import count_model

CASES = [(name, size) for name in WORKLOADS for size in WORKLOADS.load(name).sizes]
TINY = [(name, size) for name, size in CASES if not WORKLOADS.load(name).sizes[size].real_data]
# Steps in which eight samples are learned by heart, the loss that is left, and the quality that is reached. A detector
# has many more choices to make, and draws some of its proposals at random: it starts at a loss of 2.5, and after 150
# steps has 0.40 to 0.57, by seed and instruction set.
BY_HEART = {"classification": (60, 0.05, 1.0), "detection": (150, 0.8, 0.95)}


@pytest.mark.parametrize(("name", "size"), CASES)
def test_its_names_and_recipe_hold_together(name: str, size: str) -> None:
    record = WORKLOADS.load(name).sizes[size]
    where = {"data": {"path": "/data"}} if record.real_data else {}
    config = resolve_config([Source("test", {"workload": name, "size": size, **where})])
    assert config.evaluate.target_quality == record.target_quality > 0
    assert config.evaluate.exponent == record.exponent
    for registry, part in ((TASKS, record.task), (QUALITIES, record.quality), (MODELS, record.model)):
        assert registry.load(part) is not None


def fixed_part(model: nn.Module, images: Tensor) -> Tensor:
    """A number made of all outputs whose shapes do not depend on the data."""
    outputs = model.dense(images) if hasattr(model, "dense") else (model(images),)
    total: Tensor = torch.stack([output.sum() for output in outputs]).sum()
    return total


@pytest.mark.parametrize(("name", "size"), CASES)
def test_its_flops_agree_with_the_frameworks_counter(name: str, size: str) -> None:
    record = WORKLOADS.load(name).sizes[size]
    counts = count_model(record.model, record.model_settings)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model = find_card(record.model).build("torch", record.model_settings)
        fixed_part(model, torch.empty(2, *counts["input_shape"])).backward()
    assert counts["conventions"]["exact"]["training"] == counter.get_total_flops() / 2


def in_memory(split: Split | StoredSplit) -> Split:
    """All samples; those of unlike shapes are padded to the largest height and width."""
    if split.shapes is None:
        return read_whole(split)
    samples = np.zeros((len(split.labels), 3, *split.shapes.max(axis=0)), np.uint8)
    for index, (height, width) in enumerate(split.shapes.tolist()):
        samples[index, :, :height, :width] = split.read(index, "none", 0)
    return Split(samples, split.labels, split.offset, split.scale)


@pytest.mark.parametrize(("name", "size"), TINY)
def test_it_learns_eight_samples_by_heart(name: str, size: str, tmp_path: Path) -> None:
    config = planned_config(workload=name, size=size, data={"num_train": 8})
    record = WORKLOADS.load(name).sizes[size]
    generate_missing(config, tmp_path, lambda made, total: None)
    kind = DATASETS.load(config.dataset)
    split = in_memory(kind(kind.Settings.model_validate(with_folder(config, tmp_path))).load("train"))
    torch.manual_seed(0)
    model, task = find_card(config.model).build("torch", config.model_settings), TASKS.load(record.task)
    optimizer = OPTIMIZERS.load(config.train.optimizer)(model.parameters(), config.train)
    batches = ResidentBatches(split, torch.device("cpu"), channels_last=False)
    steps, most_loss, least_quality = BY_HEART[record.task]
    for _ in range(steps):
        optimizer.zero_grad()
        loss = task.loss(model, batches.samples, batches.labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < most_loss
    predictions = task.predictions(model.eval(), batches.samples).detach().numpy()
    assert QUALITIES.load(config.quality).score(predictions, split.labels) >= least_quality
