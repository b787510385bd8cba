"""Ranks run in the Python of another environment, with oneDNN on or off, and the Result says with what."""

import json
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import SMALL, Command
from tests.mpirun import AS_ROOT, require_mpirun
from tests.run_events import events_of, losses_of

BUILT = ("torch_compiler", "torch_blas", "torch_onednn", "torch_openmp")


def make_environment(folder: Path, *, without: str) -> Path:
    """Makes an environment with all packages of this one but `without` and trainmark; returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for path in sys.path:
        for each in Path(path).glob("*") if path.endswith("site-packages") else ():
            if not each.name.startswith((without, "trainmark", "__editable__")) and each.suffix != ".pth":
                (packages / each.name).unlink(missing_ok=True)
                (packages / each.name).symlink_to(each)
    return folder / "bin" / "python"


@pytest.mark.parametrize("launcher", ["local", "mpi"])
def test_ranks_run_in_the_chosen_environment_without_trainmark_in_it(
    launcher: str, trainmark: Command, tmp_path: Path
) -> None:
    if launcher == "mpi":
        require_mpirun()
    python = make_environment(tmp_path / "env", without="scipy")
    options = ["--members", "1", "--workers", "2", "--launcher", launcher, "--json"]
    done = trainmark("run", *SMALL, *options, "--set", f"launch.python={python}", **AS_ROOT)
    assert done.returncode == 0, done.stderr
    software = json.loads(done.stdout)["software"]
    assert software["python_executable"] == str(python)
    assert software["python"] == ".".join(map(str, sys.version_info[:3]))
    assert software["scipy"] == "unavailable: not installed as a package"  # though it is, where trainmark runs
    assert all(software[name] for name in BUILT)
    for rank in range(2):
        started = next(e for e in events_of(next((tmp_path / "runs").glob("2*")), rank=rank) if "software" in e)
        assert started["software"]["python_executable"] == str(python)


def test_an_environment_without_torch_is_refused_before_anything_is_written(trainmark: Command, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env", without="torch")
    done = trainmark("run", *SMALL, "--set", f"launch.python={python}")
    assert done.returncode == 2
    assert done.stderr == (
        f"trainmark: launch.python={python} cannot import torch, which ranks need. "
        f"Run {python} -m pip install torch, or do not set launch.python.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


def test_without_onednn_losses_are_the_same_and_the_result_says_so(warm_trainmark: Command, tmp_path: Path) -> None:
    losses = []
    for value in ("true", "false"):
        settings = (f"train.torch.onednn={value}", "train.torch.memory_format=contiguous")
        options = [word for setting in settings for word in ("--set", setting)]
        done = warm_trainmark("run", *SMALL, *options, "--members", "1", "--workers", "1", "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["engine"]["onednn"] is (value == "true")
        losses.append(losses_of(tmp_path / "runs" / result["run_id"]))
    # One epoch of fp32 steps, whose sums are only ordered differently.
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert len(losses[0]) >= 5
