"""Every named part of the training engine in real runs: rows of choices that together cover every registry."""

import json
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.conftest import SMALL, Command
from tests.two_cores import CORES
from trainmark.machine.allocators import find_allocator
from trainmark.spec.errors import PlanError
from trainmark.spec.registries import (
    COMMUNICATION,
    COMMUNICATION_PRECISIONS,
    OPTIMIZERS,
    PARALLEL,
    PRECISIONS,
    SCHEDULES,
)

# What the site of the tests (two cores, no GPU, ranks without MPI) refuses, with the reason that it must give.
REFUSED = {
    "train.precision=tf32": "tf32 needs GPUs",
    "train.communication=mpi": "needs workers started by MPI",  # they train in test_mpi.py
}
# A torus needs four workers; on two cores they share them.
FOUR_WORKERS = {"torus-2d"}
SLOTS = ", ".join(f'{{ cores = "{core}" }}' for core in (*CORES, *CORES))
CROWDED = f'name = "crowded"\n[[groups]]\nshared_cores = true\nslots = [{SLOTS}]\n'


def covering(*kinds: tuple[str, list[str]]) -> list[tuple[str, ...]]:
    """Rows of settings in which every name of every kind stands at least once."""
    chosen = [[f"train.{key}={name}" for name in names if f"train.{key}={name}" not in REFUSED] for key, names in kinds]
    longest = max(len(settings) for settings in chosen)
    columns = [list(islice(cycle(settings), longest)) for settings in chosen]
    return list(zip(*columns, strict=True))


ALONE = covering(
    ("precision", list(PRECISIONS)),
    ("schedule", list(SCHEDULES)),
)
TOGETHER = [
    *covering(
        ("communication", [name for name in COMMUNICATION if name not in FOUR_WORKERS]),
        ("optimizer", list(OPTIMIZERS)),
        ("communication_precision", [name for name in COMMUNICATION_PRECISIONS if name != "powersgd"]),
    ),
    ("train.communication_precision=powersgd",),
    *((f"train.parallel={name}",) for name in PARALLEL if name != "data"),
]


def finished(done_json: str, settings: tuple[str, ...]) -> None:
    result = json.loads(done_json)
    assert result["state"] == "complete"
    chosen = dict(setting.removeprefix("train.").split("=") for setting in settings)
    for key, name in chosen.items():
        assert result["config"]["train"][key] == name
        assert result["engine"].get(key, name) == name
    assert 0 <= result["metrics"]["quality_ensemble"]["value"] <= 1


@pytest.mark.parametrize("settings", ALONE, ids=" ".join)
def test_one_worker_trains_with(settings: tuple[str, ...], warm_trainmark: Command) -> None:
    few = _options(("data.num_train=64", "data.num_eval=32", "model_settings.width=4"))  # CPUs emulate fp16
    done = warm_trainmark("run", *SMALL, *few, "--members", "1", "--workers", "1", "--json", *_options(settings))
    assert done.returncode == 0, done.stderr
    finished(done.stdout, settings)


@pytest.mark.parametrize("settings", TOGETHER, ids=" ".join)
def test_workers_train_together_with(settings: tuple[str, ...], warm_trainmark: Command) -> None:
    options = ["--members", "1", "--workers", "2", "--json", *_options(settings)]
    options += ["--set", "train.batch_size=16", "--set", "train.averaging_steps=2"]
    done = warm_trainmark("run", *SMALL, *options)
    assert done.returncode == 0, done.stderr
    finished(done.stdout, settings)
    metrics = json.loads(done.stdout)["metrics"]
    assert metrics["communication_bytes_per_step"]["value"] > 0
    assert 0 <= metrics["communication_share"]["value"] < 1


def test_four_workers_on_two_cores_form_a_torus_and_the_result_warns(warm_trainmark: Command, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(CROWDED)
    options = ["--members", "1", "--workers", "4", "--site", "site.toml", "--json", "--set", "train.batch_size=8"]
    done = warm_trainmark("run", *SMALL, *options, "--set", "train.communication=torus-2d")
    assert done.returncode == 0, done.stderr
    finished(done.stdout, ("train.communication=torus-2d",))
    assert any(
        "oversubscribed cores: workers use 4, but there are 2" in line for line in json.loads(done.stdout)["warnings"]
    )


@pytest.mark.parametrize("setting", list(REFUSED))
def test_what_this_site_cannot_do_is_refused_before_anything_starts(setting: str, warm_trainmark: Command) -> None:
    done = warm_trainmark("run", *SMALL, "--workers", "2", "--set", setting)
    assert done.returncode == 2
    assert REFUSED[setting] in done.stderr


def test_images_that_no_machine_can_hold_end_a_run_with_what_they_need(warm_trainmark: Command) -> None:
    # A batch of 32 images of 3 × 10⁶ × 10⁶ values of 4 bytes: 384 × 10¹² bytes = 349.2 TiB.
    settings = ("dataset=synthetic", "data.height=1000000", "data.width=1000000", "measure.ceiling=false")
    done = warm_trainmark("run", "--members", "1", *(word for setting in settings for word in ("--set", setting)))
    assert done.returncode == 1
    assert "failed: out of memory: could not allocate 349.2 TiB, and this machine has" in done.stderr
    assert "If a setting is the cause, start a new run; else fix it and resume with: trainmark resume" in done.stderr


def test_a_throughput_run_on_synthetic_data_says_so_and_has_no_quality(warm_trainmark: Command) -> None:
    settings = ("dataset=synthetic", "data.num_train=128", "data.height=24", "train.batch_size=16", "train.epochs=2")
    done = warm_trainmark("run", "--members", "1", "--json", "--set", "measure.ceiling=false", *_options(settings))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["engine"]["synthetic"] is True
    assert any("synthetic" in warning for warning in result["warnings"])
    assert result["metrics"]["throughput_samples_per_s"]["status"] == "measured"
    for name in ("quality_ensemble", "quality_member_mean", "quality_out_of_bag", "vflops"):
        assert result["metrics"][name]["reason"] == "not applicable: synthetic data"


@pytest.mark.parametrize("allocator", ["tcmalloc", "jemalloc"])
def test_ranks_run_with_the_chosen_allocator(allocator: str, trainmark: Command) -> None:
    try:
        library = find_allocator(allocator)
    except PlanError as missing:
        pytest.skip(str(missing))
    done = trainmark("run", *SMALL, "--members", "1", "--json", "--set", f"launch.allocator={allocator}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["software"]["environment"]["LD_PRELOAD"] == library


def _options(settings: tuple[str, ...]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]
