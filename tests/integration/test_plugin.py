"""A third party's workload, in a distribution of its own, is found by its entry point and trained."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Command


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
    assert list(json.loads(done.stdout)) == ["image-classification", "stripes"]


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


def test_a_wrong_setting_of_its_dataset_is_refused(trainmark: Command, installed: str, tmp_path: Path) -> None:
    done = trainmark("run", "stripes", "--set", "data.num_tran=3", PYTHONPATH=installed)
    assert done.returncode == 2
    assert "Did you mean 'num_train'?" in done.stderr
    assert not (tmp_path / "runs").exists()
