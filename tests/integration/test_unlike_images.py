"""Images of unlike shape, trained as a user does it: every strategy, several workers, resumed, staged, masked."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Command
from tests.integration.test_faults import Start
from tests.run_events import events_of, losses_of

FEW = ("--set", "num_train=90", "--set", "num_eval=24", "--set", "num_classes=3", "--set", "mean_megapixels=0.006")
SETTINGS = [
    *("--members", "1", "--set", "launch.threads=1", "--set", "measure.ceiling=false"),
    *("--set", "model_settings.width=16", "--set", "model_settings.num_classes=3", "--set", "data.side=40"),
    *("--set", "train.epochs=2", "--set", "train.batch_size=8"),
]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from trainmark.cli.main import app

    folder = tmp_path_factory.mktemp("artworks") / "pictures"
    made = CliRunner().invoke(app, ["data", "make", "artworks", "-o", str(folder), *FEW])
    assert made.exit_code == 0, made.output
    return folder


def trained(command: Command, pictures: Path, *settings: str) -> dict[str, Any]:
    chosen = [word for setting in settings for word in ("--set", setting)]
    done = command("run", "artworks", *SETTINGS, "--set", f"data.path={pictures}", *chosen, "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def steps_of(folder: Path, rank: int = 0) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"samples": [], "informative_px": [], "total_px": [], "flop": []}
    for event in events_of(folder, rank=rank):
        if event["kind"] == "steps":
            for name in ("samples", "informative_px", "total_px"):
                found[name] += event[name]
            found["flop"] += event["flop"]["exact"] if event.get("flop") else []
    return found


def steps_of_attempt(folder: Path, attempt: int) -> list[int]:
    """The pixels of each step of an attempt."""
    return [px for event in events_of(folder, attempt=attempt) if event["kind"] == "steps" for px in event["total_px"]]


@pytest.mark.parametrize("batching", ["random", "aspect", "size", "nearest", "pixels", "singles"])
def test_every_draw_of_the_bootstrap_is_trained_once_per_epoch(
    batching: str, warm_trainmark: Command, tmp_path: Path, pictures: Path
) -> None:
    settings = ("evaluate.samples=7", "measure.inference=true", "measure.inference_seconds=0.05")
    result = trained(warm_trainmark, pictures, f"train.batching={batching}", "ensemble.bootstrap=none", *settings)
    folder = tmp_path / "runs" / result["run_id"]
    steps = steps_of(folder)
    assert sum(steps["samples"]) == 2 * 90
    stops = [event for event in events_of(folder) if event["kind"] == "epoch_stop"]
    assert [event["samples"] for event in stops] == [90, 90]
    informative, total = sum(steps["informative_px"]), sum(steps["total_px"])
    assert result["metrics"]["padding_ratio"]["value"] == pytest.approx(total / informative)
    assert (total == informative) == (batching == "singles")
    assert result["metrics"]["quality_ensemble"]["n"] == 7
    assert {event["samples"] for event in events_of(folder) if event["kind"] == "evaluation"} == {7}
    assert any(
        "quality is that of 7 of 24 held-out samples: evaluate.samples is 7" in line for line in result["warnings"]
    )
    in_batches = result["metrics"]["inference_samples_per_s"]
    if batching == "singles":  # eight images at a time would need more memory than training did
        assert in_batches["reason"].startswith("a batch of 8 images has ")
    elif batching != "pixels":
        assert in_batches["value"] > 0
    assert result["metrics"]["inference_latency_p50_s"]["value"] > 0
    assert result["metrics"]["quality_out_of_bag"]["value"] is None  # every sample was drawn


@pytest.mark.parametrize(("mode", "batching"), [("data", "nearest"), ("sharded", "singles")])
def test_two_workers_share_the_steps_of_one_and_lose_none(
    mode: str, batching: str, warm_trainmark: Command, tmp_path: Path, pictures: Path
) -> None:
    alone = trained(warm_trainmark, pictures, f"train.batching={batching}", "train.batch_size=16")
    together = ("ensemble.workers=2", f"train.parallel={mode}")
    both = trained(warm_trainmark, pictures, f"train.batching={batching}", *together)
    steps = [steps_of(tmp_path / "runs" / result["run_id"]) for result in (alone, both)]
    assert steps[0]["samples"] == steps[1]["samples"]
    assert steps[0]["informative_px"] == steps[1]["informative_px"]
    other_rank = steps_of(tmp_path / "runs" / both["run_id"], rank=1)
    assert other_rank["samples"] == steps[1]["samples"] and not other_rank["flop"]


def test_a_model_split_over_two_workers_has_the_losses_of_one(
    warm_trainmark: Command, tmp_path: Path, pictures: Path
) -> None:
    losses = []
    for settings in ((), ("ensemble.workers=2", "train.parallel=model")):
        result = trained(warm_trainmark, pictures, "train.batching=pixels", "train.accumulation=2", *settings)
        losses.append(losses_of(tmp_path / "runs" / result["run_id"]))
    assert len(losses[0]) >= 10
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_losses_are_the_same_for_any_number_of_readers(warm_trainmark: Command, tmp_path: Path, pictures: Path) -> None:
    losses = []
    for readers in (0, 2):
        result = trained(warm_trainmark, pictures, "train.batching=nearest", f"launch.loader_workers={readers}")
        losses.append(losses_of(tmp_path / "runs" / result["run_id"]))
    assert losses[0] == losses[1] and len(losses[0]) >= 10


def test_without_evaluation_there_is_no_quality_and_the_run_is_complete(
    warm_trainmark: Command, tmp_path: Path, pictures: Path
) -> None:
    result = trained(warm_trainmark, pictures, "evaluate.samples=0")
    reasons = {result["metrics"][name]["reason"] for name in ("quality_ensemble", "quality_out_of_bag", "vflops")}
    assert reasons == {"not measured: evaluate.samples is 0"}
    assert not result["damage"] and result["members"][0]["state"] == "finished"
    folder = tmp_path / "runs" / result["run_id"]
    assert not list(folder.rglob("predictions.npz"))
    assert warm_trainmark("show", result["run_id"]).returncode == 0


def test_masked_padding_trains_and_recomputation_and_accumulation_keep_its_losses(
    warm_trainmark: Command, tmp_path: Path, pictures: Path
) -> None:
    losses = []
    for settings in ((), ("train.torch.recompute=true",)):
        result = trained(warm_trainmark, pictures, "train.mask_padding=true", *settings)
        losses.append(losses_of(tmp_path / "runs" / result["run_id"]))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    unmasked = trained(warm_trainmark, pictures)
    assert losses_of(tmp_path / "runs" / unmasked["run_id"]) != losses[0]


def test_flops_are_counted_at_the_padded_shapes_and_samples_as_they_are(
    warm_trainmark: Command, tmp_path: Path, pictures: Path
) -> None:
    result = trained(warm_trainmark, pictures, "train.batching=singles")
    folder = tmp_path / "runs" / result["run_id"]
    steps = steps_of(folder)
    per_pixel = np.array(steps["flop"]) / np.array(steps["total_px"])
    # Without padding a pixel costs nearly the same in every step; only the edges of feature maps differ.
    assert per_pixel.max() / per_pixel.min() < 1.1
    seconds = [event["epoch_s"] for event in events_of(folder) if event["kind"] == "epoch_stop"]
    assert result["metrics"]["flops"]["value"] == pytest.approx(sum(steps["flop"]) / sum(seconds), rel=1e-6)


@pytest.mark.parametrize(
    ("batching", "workers"),
    [("random", 1), ("aspect", 1), ("size", 1), ("nearest", 2), ("pixels", 2), ("singles", 2)],
)
def test_a_worker_killed_within_an_epoch_resumes_to_the_same_losses(
    batching: str, workers: int, warm_trainmark: Command, start_here: Start, pictures: Path
) -> None:
    settings = (
        *("artworks", *SETTINGS, "--workers", str(workers), "--set", f"data.path={pictures}"),
        *("--set", f"train.batching={batching}", "--set", "evaluate.samples=0", "--set", "train.epochs=6"),
        # All checkpoints are within an epoch.
        *("--set", "launch.checkpoint_steps=4", "--set", "launch.checkpoint_epochs=0"),
    )
    run = start_here(*settings)
    run.wait_for("checkpoint")
    os.kill(run.pid(0, rank=workers - 1), signal.SIGKILL)
    assert run.end()[0] == 1
    disturbed = run.folder
    assert json.loads(warm_trainmark("resume", str(disturbed), "--json").stdout)["members"][0]["restarted"]
    events = events_of(disturbed, attempt=2)
    (after,) = [event for event in events if event["kind"] == "resumed"]
    (ready,) = [event for event in events if event["kind"] == "data_ready"]
    assert after["step"] % ready["steps_per_epoch"]
    assert start_here(*settings).end()[0] == 0
    undisturbed = next(path for path in run.runs.iterdir() if path != disturbed)
    assert losses_of(disturbed, attempt=2) == losses_of(undisturbed)[after["step"] :]
    steps, whole = steps_of_attempt(disturbed, 2), steps_of(undisturbed)["total_px"]
    assert steps == whole[after["step"] :]


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (("model=vit-small",), "takes images of one shape"),
        (("train.parallel=gpipe", "ensemble.workers=2"), "passes tensors of one shape between its stages"),
        (
            ("train.parallel=model", "ensemble.workers=2", "train.mask_padding=true"),
            "Padding is masked in whole models only",
        ),
        (("train.torch.compiler=inductor",), "Shapes inside resnet-tiny depend on the data"),
        (("train.batch_pixels=1000",), "limits the batches of train.batching=pixels"),
        (("data.input=lr", "train.batching=nearest"), "all of one shape, so train.batching has no effect"),
    ],
)
def test_what_unlike_images_cannot_be_trained_with_is_refused_before_anything_starts(
    settings: tuple[str, ...], refusal: str, warm_trainmark: Command, tmp_path: Path
) -> None:
    chosen = [word for setting in settings for word in ("--set", setting)]
    done = warm_trainmark("run", "artworks", "--members", "1", *chosen)
    assert done.returncode == 2 and refusal in done.stderr
    assert not (tmp_path / "runs").exists()
