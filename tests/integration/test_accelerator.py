"""The same code on an accelerator, where there is one."""

import json
from pathlib import Path

import pytest

from tests.conftest import SMALL, Command
from tests.run_events import losses_of
from trainmark.machine.accelerators import find_accelerators
from trainmark.spec.registries import PRECISIONS

pytestmark = pytest.mark.skipif(not find_accelerators(), reason="this machine has no accelerator")


def losses(trainmark: Command, tmp_path: Path, *settings: str) -> list[float]:
    options = [word for setting in settings for word in ("--set", setting)]
    alone = ("--members", "1", "--workers", "1", "--json")
    done = trainmark("run", *SMALL, *alone, *options, "--set", "train.epochs=4", CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    return losses_of(tmp_path / "runs" / json.loads(done.stdout)["run_id"])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lars"])
def test_a_captured_step_gives_the_losses_of_an_eager_one(trainmark: Command, tmp_path: Path, optimizer: str) -> None:
    same = (f"train.optimizer={optimizer}", "train.precision=fp32", "train.collapse_epochs=1")
    eager = losses(trainmark, tmp_path, *same, "train.torch.cuda_graph=false")
    captured = losses(trainmark, tmp_path, *same, "train.torch.cuda_graph=true")
    assert captured[:8] == pytest.approx(eager[:8], rel=1e-3)


@pytest.mark.parametrize(
    "setting", ["train.torch.offload=host", "train.torch.offload=disk", "train.torch.recompute=true"]
)
def test_offloading_and_recomputing_on_an_accelerator_keep_the_losses(
    trainmark: Command, tmp_path: Path, setting: str
) -> None:
    plain = losses(trainmark, tmp_path, "train.torch.cuda_graph=false", "train.precision=fp32")
    other = losses(trainmark, tmp_path, "train.torch.cuda_graph=false", "train.precision=fp32", setting)
    assert other[:8] == pytest.approx(plain[:8], rel=1e-3)


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_every_precision_trains_on_an_accelerator(trainmark: Command, tmp_path: Path, precision: str) -> None:
    assert losses(trainmark, tmp_path, f"train.precision={precision}")[-1] < 3


def test_a_run_on_an_accelerator_gives_a_valid_result(trainmark: Command) -> None:
    done = trainmark("run", *SMALL, "--members", "1", "--workers", "1", "--json", CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "complete"
    assert result["plan"]["mapping"][0]["ranks"][0]["accelerator"] == 0
    assert result["metrics"]["peak_memory_bytes"]["detail"]["where"] == "accelerator"
    busy = result["metrics"]["gpu_utilisation"]
    assert busy["status"] == "measured", busy["reason"]
    (node,) = busy["detail"]["nodes"]
    assert (node["accelerators"], node["memory_bytes"] > 0) == (1, True)


def test_the_trained_model_is_measured_on_an_accelerator(trainmark: Command) -> None:
    settings = ("--set", "measure.inference=true", "--set", "measure.inference_seconds=1")
    done = trainmark("run", *SMALL, "--members", "1", "--json", *settings, CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    names = ("inference_samples_per_s", "inference_latency_p50_s", "inference_latency_p99_s")
    assert [metrics[name]["reason"] for name in names] == [None, None, None]
