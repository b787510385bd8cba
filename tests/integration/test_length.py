"""Members that train for a number of steps or minutes, or until they reach the target: real training, real files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.test_identity import attempt, check_identity, staged
from tests.run_events import events_of
from trainmark.spec.job_record import JobRecord

RunSmall = Callable[..., dict[str, Any]]
TINY = ("model_settings.width=4", "ensemble.bootstrap=none", "train.warmup_epochs=0.0")  # twelve steps per epoch


def of_kind(folder: Path, kind: str, number: int = 1, rank: int = 0) -> list[dict[str, Any]]:
    return [event for event in events_of(folder, attempt=number, rank=rank) if event["kind"] == kind]


def steps_of(folder: Path, name: str, number: int = 1) -> list[float]:
    return [value for event in of_kind(folder, "steps", number) for value in event[name]]


def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *settings: str, kills: tuple[int, ...] = ()) -> JobRecord:
    """A member trained in this process, killed in these steps and resumed."""
    threads = torch.get_num_threads()
    record = staged(tmp_path, *TINY, *settings)
    try:
        for number, kill_at in enumerate((*kills, None), 1):
            attempt(record, number, kill_at, monkeypatch)
    finally:
        torch.set_num_threads(threads)
    return record


@pytest.mark.parametrize(("steps", "of_epochs"), [(7, [7]), (24, [12, 12]), (30, [12, 12, 6])])
def test_training_ends_after_exactly_so_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, of_epochs: list[int]
) -> None:
    folder = trained(tmp_path, monkeypatch, f"train.steps={steps}", "evaluate.every_epochs=2").folder.path
    stops = of_kind(folder, "epoch_stop")
    assert [(stop["samples"], stop["steps_per_epoch"]) for stop in stops] == [(8 * each, 12) for each in of_epochs]
    # Polynomial decay of power 1 from 0.05 × 8 / 32 over all steps.
    expected = [0.0125 * (steps - step) / steps for step in range(steps)]
    assert steps_of(folder, "learning_rate") == pytest.approx(expected)
    # Every second epoch is evaluated, and the last one however short it is.
    evaluated = {1: [0], 2: [1], 3: [1, 2]}[len(of_epochs)]
    assert [event["epoch"] for event in of_kind(folder, "evaluation")] == evaluated
    assert [event["step"] for event in of_kind(folder, "run_stop")] == [steps]


@pytest.mark.parametrize("kill_at", [9, 27])
def test_a_number_of_steps_resumes_bit_identically(
    kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(tmp_path, monkeypatch, (kill_at,), "train.steps=30", "model_settings.width=4")


def test_a_time_that_is_too_short_for_anything_trains_three_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained(tmp_path, monkeypatch, "train.minutes=1e-6").folder.path
    assert [(stop["epoch"], stop["samples"]) for stop in of_kind(folder, "epoch_stop")] == [(0, 24)]
    assert len(of_kind(folder, "evaluation")) == 1


def test_a_resumed_member_trains_for_the_time_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Three seconds; killed after the checkpoint of step 5.
    folder = trained(tmp_path, monkeypatch, "train.minutes=0.05", "train.epochs=1", kills=(7,)).folder.path
    (resumed,) = of_kind(folder, "resumed", 2)
    assert resumed["step"] == 5
    assert resumed["trained_s"] == pytest.approx(sum(steps_of(folder, "step_s")[:5]), rel=0.2)
    epochs_s = sum(stop["epoch_s"] for stop in of_kind(folder, "epoch_stop", 2))
    assert resumed["trained_s"] + sum(steps_of(folder, "step_s", 2)[:-1]) < 3.0 <= resumed["trained_s"] + epochs_s


def test_two_workers_end_at_the_same_step_when_the_time_is_up(run_small: RunSmall, tmp_path: Path) -> None:
    settings = ("--set", "train.minutes=0.02", "--set", "model_settings.width=4", "--set", "train.batch_size=8")
    result = run_small("--members", "1", "--workers", "2", *settings, "--set", "measure.ceiling=false")
    folder = tmp_path / "runs" / result["run_id"]
    first, second = (
        [(stop["next_step"], stop["samples"]) for stop in of_kind(folder, "epoch_stop", rank=rank)] for rank in (0, 1)
    )
    assert first == second
    last = of_kind(folder, "epoch_stop")[-1]
    assert last["next_step"] >= 3 + 2  # asked after three steps, agreed two ahead
    assert sum(stop["epoch_s"] for stop in of_kind(folder, "epoch_stop")) >= 1.2
    assert sum(samples for _, samples in first) == 16 * last["next_step"]
    assert result["members"][0]["epochs_done"] == pytest.approx(last["next_step"] / last["steps_per_epoch"], abs=1e-3)


def test_two_workers_end_at_the_first_evaluation_at_the_target(run_small: RunSmall, tmp_path: Path) -> None:
    target = ("--set", "train.stop_at_target=true", "--set", "evaluate.target_quality=0.001")
    more = ("--set", "train.epochs=5", "--set", "model_settings.width=4", "--set", "measure.ceiling=false")
    result = run_small("--members", "1", "--workers", "2", *target, *more)
    folder = tmp_path / "runs" / result["run_id"]
    assert [[stop["epoch"] for stop in of_kind(folder, "epoch_stop", rank=rank)] for rank in (0, 1)] == [[0], [0]]
    assert (result["state"], result["members"][0]["epochs_done"]) == ("complete", 1)
    figures = result["metrics"]
    assert figures["epochs_to_target"]["value"] == 1
    assert 0 < figures["time_to_target_s"]["value"] <= figures["time_to_train_all_s"]["value"]
    samples = of_kind(folder, "epoch_stop")[0]["samples"]
    per_sample = figures["flops"]["detail"]["training_flop_per_sample"]["exact"]
    assert figures["flop_to_target"]["value"] == pytest.approx(samples * per_sample)
    assert result["members"][0]["metrics"]["epochs_to_target"]["value"] == 1
