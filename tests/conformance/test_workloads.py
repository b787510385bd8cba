"""Every workload: its FLOPs agree with the framework's counter, and it can learn eight samples by heart."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trainmark.data.batches import ResidentBatches
from trainmark.plan.resolve import Choices, resolve_config
from trainmark.spec.registries import DATASETS, MODELS, OPTIMIZERS, QUALITIES, TASKS, WORKLOADS
from trainmark.workloads.flops.count import count_model

CASES = [(name, size) for name in WORKLOADS for size in WORKLOADS.load(name).sizes]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


def test_its_names_and_recipe_hold_together(case: tuple[str, str]) -> None:
    name, size = case
    record = WORKLOADS.load(name).sizes[size]
    config = resolve_config([Choices("test", {"workload": name, "size": size})])
    assert config.evaluate.target_quality > 0
    assert config.evaluate.exponent == record.exponent
    for registry, part in ((TASKS, record.task), (QUALITIES, record.quality), (MODELS, record.model)):
        assert registry.load(part) is not None


def test_its_flops_agree_with_the_frameworks_counter(case: tuple[str, str]) -> None:
    record = WORKLOADS.load(case[0]).sizes[case[1]]
    counts = count_model(record.model, record.model_settings)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model = MODELS.load(record.model)(**record.model_settings)
        model(torch.empty(2, *counts["input_shape"])).sum().backward()
    assert counts["conventions"]["exact"]["training"] == counter.get_total_flops() / 2


def test_it_learns_eight_samples_by_heart(case: tuple[str, str]) -> None:
    name, size = case
    record = WORKLOADS.load(name).sizes[size]
    config = resolve_config([Choices("test", {"workload": name, "size": size, "data": {"num_train": 8}})])
    dataset = DATASETS.load(record.dataset)
    split = dataset(dataset.Settings.model_validate(config.data)).load("train")
    torch.manual_seed(0)
    model, task = MODELS.load(record.model)(**record.model_settings), TASKS.load(record.task)
    optimizer = OPTIMIZERS.load(config.train.optimizer)(model.parameters(), config.train)
    batches = ResidentBatches(split, torch.device("cpu"), channels_last=False)
    for _ in range(60):
        optimizer.zero_grad()
        loss = task.loss(model(batches.samples), batches.labels)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    assert (
        QUALITIES.load(record.quality).score(task.predictions(model(batches.samples)).detach().numpy(), split.labels)
        == 1
    )
