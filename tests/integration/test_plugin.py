"""A third party's workload and metric, in a distribution of their own, are found by their entry points and used."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, Command
from tests.run_events import losses_of


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder into which pip installed the distribution."""
    target = tmp_path_factory.mktemp("installed")
    source = tmp_path_factory.mktemp("source") / "plugin"
    subprocess.run(["cp", "-r", ROOT / "tests/integration/plugin", source], check=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            target,
            source,
        ],
        check=True,
    )
    return str(target)


def test_it_is_listed_beside_our_own(trainmark: Command, installed: str) -> None:
    done = trainmark("list", "workloads", "--json", PYTHONPATH=installed)
    assert list(json.loads(done.stdout)) == [
        *("artworks", "extreme-weather", "image-classification"),
        *("stripes", "stripes-broken"),
    ]
    done = trainmark("list", "models", "--json", PYTHONPATH=installed)
    assert json.loads(done.stdout)["stripes-linear"] == "A linear model of 8 × 8 pictures."


def test_it_is_trained_with_its_own_model_data_target_and_exponent(
    trainmark: Command, installed: str, tmp_path: Path
) -> None:
    done = trainmark("run", "stripes", "--members", "2", "--json", PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["metrics"]["quality_ensemble"]["value"] > 0.95
    assert result["metrics"]["vflops"]["exponent"] == 3
    # 64 × 2 weights: 2 · 128 FLOP forward, and as much for the weight gradient; the input needs none.
    assert result["metrics"]["flops"]["detail"]["training_flop_per_sample"]["exact"] == 512
    assert trainmark("show", result["run_id"], "--json", PYTHONPATH=installed).stdout == done.stdout
    seen = result["metrics"]["pictures_seen"]
    assert (seen["unit"], seen["status"]) == ("samples", "measured")
    assert seen["value"] == result["metrics"]["flops"]["detail"]["samples"]
    assert "pictures seen" in trainmark("show", result["run_id"], PYTHONPATH=installed).stdout
    assert "pictures seen" not in trainmark("show", result["run_id"]).stdout  # without the plug-in nobody knows how


def test_its_bootstrap_decides_what_a_member_trains_on(warm_trainmark: Command, installed: str, tmp_path: Path) -> None:
    run = ("run", "stripes", "--members", "1", "--json", "--set", "measure.ceiling=false")
    done = warm_trainmark(*run, "--set", "ensemble.bootstrap=first-half", PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / json.loads(done.stdout)["run_id"]
    (entry,) = json.loads((folder / "bootstrap/audit.json").read_text())["members"]
    assert (entry["draws"], entry["present_share"], entry["expected_share"]) == (100, 0.5, None)


def test_a_wrong_setting_of_its_dataset_is_refused(trainmark: Command, installed: str, tmp_path: Path) -> None:
    done = trainmark("run", "stripes", "--set", "data.num_tran=3", PYTHONPATH=installed)
    assert done.returncode == 2
    assert "Did you mean 'num_train'?" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_two_workers_learn_exactly_what_one_with_twice_the_batch_learns(
    warm_trainmark: Command, installed: str, tmp_path: Path
) -> None:
    # No batch norm here, so the mean of two half-batch gradients is the gradient of the whole batch.
    common = (
        "run",
        "stripes",
        "--members",
        "1",
        "--json",
        "--set",
        "measure.ceiling=false",
        "--set",
        "launch.threads=1",
    )
    two = warm_trainmark(*common, "--workers", "2", "--set", "train.batch_size=5", PYTHONPATH=installed)
    one = warm_trainmark(*common, "--workers", "1", "--set", "train.batch_size=10", PYTHONPATH=installed)
    folders = [tmp_path / "runs" / json.loads(done.stdout)["run_id"] for done in (two, one)]
    halves = [losses_of(folders[0], rank=rank) for rank in (0, 1)]
    means = [(first + second) / 2 for first, second in zip(*halves, strict=True)]
    assert halves[0] != halves[1]
    assert means == pytest.approx(losses_of(folders[1]), rel=1e-4)
    assert means[-1] < means[0] / 2


def test_an_error_of_one_rank_alone_ends_the_member_and_is_told(
    warm_trainmark: Command, installed: str, tmp_path: Path
) -> None:
    start = time.monotonic()
    done = warm_trainmark("run", "stripes-broken", "--members", "1", "--workers", "2", PYTHONPATH=installed)
    assert time.monotonic() - start < 60
    assert done.returncode == 1
    assert "member 0 failed: rank 1 failed: ValueError: a bad sample" in done.stderr
    (log,) = (tmp_path / "runs").glob("*/jobs/0000/attempt-1/rank-1.log")
    assert 'raise ValueError("a bad sample")' in log.read_text()


def test_a_study_in_one_file_is_listed_run_and_drawn(
    trainmark: Command, warm_trainmark: Command, installed: str, tmp_path: Path
) -> None:
    listed = json.loads(trainmark("list", "studies", "--json", PYTHONPATH=installed).stdout)
    assert listed["readers"] == "throughput over the number of data loader processes"
    assert "--readers LIST" in trainmark("study", "readers", "--help", PYTHONPATH=installed).stdout
    short = ["--set", "train.steps=5", "--set", "data.num_train=200", "--set", "data.num_eval=50"]
    short += ["--set", "launch.threads=1", "--set", "measure.ceiling=false"]
    done = warm_trainmark("study", "readers", "--readers", "0,1", "--repeats", "1", *short, PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    (study,) = (tmp_path / "runs" / "studies").iterdir()
    rows = json.loads((study / "table.json").read_text())["rows"]
    assert [(row["readers"], row["n"]) for row in rows] == [(0, 1), (1, 1)]
    assert "Data loader processes" in (study / "report.html").read_text()
    assert (study / "readers.svg").read_text().startswith("<svg")


def test_the_study_is_the_example_of_the_documentation() -> None:
    code = (ROOT / "tests/integration/plugin/src/trainmark_readers.py").read_text().partition("\n\n")[2]
    assert f"```python\n{code}```" in (ROOT / "docs" / "extending.md").read_text()
