"""A member that is killed at any step and resumed has, step for step, the losses of one that was not: bit for bit."""

import itertools
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.run_events import events_of, losses_of
from tests.two_cores import CORES
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.job_record import JobRecord
from trainmark.spec.model_card import ModelCard
from trainmark.spec.registries import OPTIMIZERS, SCHEDULES
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.store.new_run import write_run
from trainmark.train.end_request import EndRequest
from trainmark.train.engine import RankContext
from trainmark.train.event_log import EventLog
from trainmark.train.member import train_member
from trainmark.train.torch.engine import TorchEngine
from trainmark.train.torch.models.resnets import basic_block, convolution, initialise

SITE = Site(name="test", groups=(NodeGroup(slots=(Slot(cores=CORES[:1]),)),))
SMALL = (
    *("data.num_train=96", "data.num_eval=32", "train.batch_size=8", "train.epochs=3", "train.warmup_epochs=0.5"),
    *("measure.ceiling=false", "launch.checkpoint_steps=5", "ensemble.members=1", "ensemble.workers=1"),
)
NARROW = ("model_settings.width=4",)  # where the model does not matter
ONE_BLOCK = ModelCard(  # all kinds of layers of a resnet, each of which takes seconds to compile
    name="one-block",
    description="one residual block",
    input_shape=(3, 32, 32),
    builders={"torch": f"{__name__}:one_block"},
    settings={"num_classes": 10},
)


def one_block(num_classes: int) -> nn.Module:
    model = nn.Sequential(
        convolution(3, 16, 3, stride=2),
        nn.ReLU(inplace=True),
        basic_block(16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, num_classes),
    )
    initialise(model)
    return model


class Killed(BaseException):
    """Stands for SIGKILL where processes would cost too much: tests/integration/test_faults.py sends the real one."""


def staged(tmp_path: Path, *settings: str) -> JobRecord:
    config, plan = make_plan(resolve_config([parse_setting(text) for text in (*SMALL, *settings)]), SITE)
    folder = write_run(config, plan, SITE, Places.of(tmp_path))
    return JobRecord(folder, config, SITE, plan.jobs[0])


def attempt(record: JobRecord, number: int, kill_at: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt at the member, in this process; it dies in the step `kill_at`."""
    count = itertools.count(1)

    original = TorchEngine.step

    def dying(engine: TorchEngine, *settings: Any) -> torch.Tensor:
        if next(count) == kill_at:
            raise Killed
        return original(engine, *settings)

    folder = record.folder.attempt(0, number)
    folder.path.mkdir(parents=True, exist_ok=True)
    context = RankContext(record, record.job.ranks[0], folder, EventLog(folder.rank_events(0)))
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(TorchEngine, "step", dying)
        train_member(context, number, EndRequest(), waits_for_start=False)


def check_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: tuple[int, ...], *settings: str) -> None:
    threads = torch.get_num_threads()
    try:
        straight = staged(tmp_path / "straight", *settings)
        attempt(straight, 1, None, monkeypatch)
        disturbed = staged(tmp_path / "disturbed", *settings)
        for number, kill_at in enumerate((*kills, None), 1):
            attempt(disturbed, number, kill_at, monkeypatch)
    finally:
        torch.set_num_threads(threads)
    expected = losses_of(straight.folder.path)
    last = len(kills) + 1
    again = losses_of(disturbed.folder.path, attempt=last)
    (resumed,) = [e for e in events_of(disturbed.folder.path, attempt=last) if e["kind"] == "resumed"]
    assert len(expected) == 36 or "ensemble.bootstrap=none" not in settings
    assert resumed["step"] > 0
    assert again == expected[resumed["step"] :]
    assert quality(straight.folder) == quality(disturbed.folder, last)


def quality(folder: RunFolder, number: int = 1) -> list[float]:
    return [e["quality"] for e in events_of(folder.path, attempt=number) if e["kind"] == "evaluation"][-1:]


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_every_optimizer_resumes_bit_identically(
    optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(tmp_path, monkeypatch, (9,), f"train.optimizer={optimizer}", *NARROW)


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_every_schedule_resumes_bit_identically(schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("train.momentum_correction=off", "train.collapse_epochs=1", "train.decay_epochs=1.0")
    check_identity(tmp_path, monkeypatch, (17,), f"train.schedule={schedule}", *settings, *NARROW)


@pytest.mark.parametrize(
    "settings",
    [
        ("ensemble.bootstrap=none",),
        ("ensemble.bootstrap=multinomial", "train.augmentation=flip-shift"),
        ("train.accumulation=2",),
        ("train.precision=int8",),
        ("train.precision=fp16-mixed", "model_settings.width=4"),  # in software fp16 is slow
    ],
    ids=" ".join,
)
def test_every_data_order_and_kind_of_step_resumes_bit_identically(
    settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(tmp_path, monkeypatch, (8,), *settings)


@pytest.mark.parametrize("kill_at", [6, 10, 12, 13, 30])
def test_a_kill_at_any_step_resumes_bit_identically(
    kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(tmp_path, monkeypatch, (kill_at,), "ensemble.bootstrap=none")


def test_a_member_that_is_killed_again_and_again_resumes_bit_identically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(tmp_path, monkeypatch, (8, 9, 7), "ensemble.bootstrap=none")


@pytest.mark.parametrize("setting", ["train.torch.recompute=true", "train.torch.offload=disk"])
def test_recomputing_and_offloading_change_neither_losses_nor_quality(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, *same = setting.split()
    plain, other = staged(tmp_path / "plain", *same), staged(tmp_path / "other", changed, *same)
    for record in (plain, other):
        attempt(record, 1, None, monkeypatch)
    assert losses_of(other.folder.path) == losses_of(plain.folder.path)
    assert quality(other.folder) == quality(plain.folder)


@pytest.mark.parametrize(
    "setting",
    [
        "train.torch.memory_format=contiguous",
        "train.torch.memory_format=onednn",
        "train.torch.compiler=torchscript",
        pytest.param(
            f"train.torch.compiler=inductor model={__name__}:ONE_BLOCK",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler, g++"),
            ],
        ),
    ],
)
def test_a_faster_form_of_the_model_keeps_the_losses(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, *same = setting.split()
    plain, other = staged(tmp_path / "plain", *same), staged(tmp_path / "other", changed, *same)
    for record in (plain, other):
        attempt(record, 1, None, monkeypatch)
    # Sums in another order: the first steps differ by rounding alone, which training then makes grow.
    expected, found = losses_of(plain.folder.path), losses_of(other.folder.path)
    assert len(found) == len(expected)
    assert found[:5] == pytest.approx(expected[:5], rel=1e-4)
    assert found[:20] == pytest.approx(expected[:20], rel=0.05)
