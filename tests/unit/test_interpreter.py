"""The interpreter of launch.python is tried with all that ranks import, and refused in one line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planned import EIGHT_CORES, planned_config
from trainmark.launch import other_python
from trainmark.launch.interpreter import check_interpreter, modules_of_rank
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.errors import ConfigError, PlanError


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_rank_needs_its_engine_its_dataset_and_its_quality() -> None:
    assert modules_of_rank(planned_config()) == (
        *("numpy", "psutil", "pydantic", "torch"),
        *("trainmark.train.worker", "trainmark.train.member", "trainmark.train.torch.engine"),
        *("trainmark.data.datasets.shapes", "trainmark.workloads.quality.top1"),
    )


def test_this_python_is_accepted() -> None:
    check_interpreter(sys.executable, EIGHT_CORES, ("trainmark.train.worker",))


def test_all_missing_modules_are_named_and_pip_is_told_its_own_names(tmp_path: Path) -> None:
    python = program(tmp_path, """echo '{"version": [3, 12, 1], "missing": ["numpy", "PIL", "numpy"], "error": "E"}'""")
    with pytest.raises(PlanError) as refused:
        check_interpreter(python, EIGHT_CORES, ("json",))
    assert str(refused.value) == (
        f"launch.python={python} cannot import numpy, PIL, which ranks need. "
        f"Run {python} -m pip install numpy pillow, or do not set launch.python."
    )


def test_a_python_is_asked_for_every_module_also_after_the_first_that_it_lacks() -> None:
    with pytest.raises(PlanError, match=r"cannot import no_such_module, nor_this, which ranks need"):
        check_interpreter(sys.executable, EIGHT_CORES, ("no_such_module", "json", "nor_this.one"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("""echo '{"version": [3, 9, 2], "missing": [], "error": null}'""", "is Python 3.9.2, but ranks need 3.11 or"),
        ("true", "did not run as Python: exit code 0, no output. Choose"),
        ("echo usage: python FILE. >&2; exit 2", "did not run as Python: usage: python FILE. Choose"),
        (
            """echo '{"version": [3, 12, 1], "missing": [], "error": "OSError: libmkl.so: not found"}'""",
            "cannot import what ranks need: OSError: libmkl.so: not found. Choose",
        ),
    ],
)
def test_an_unfit_program_is_refused_with_what_it_said(tmp_path: Path, text: str, words: str) -> None:
    python = program(tmp_path, text)
    with pytest.raises(PlanError) as refused:
        check_interpreter(python, EIGHT_CORES, ("json",))
    assert str(refused.value).startswith(f"launch.python={python} {words}")
    assert "\n" not in str(refused.value)


def test_a_path_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^launch.python=/no/such/python cannot be run: No such file or directory\."):
        check_interpreter("/no/such/python", EIGHT_CORES, ("json",))


@pytest.mark.parametrize("text", ["env/bin/python", "~/env/bin/python", "-c", ""])
def test_what_cannot_name_an_interpreter_on_every_node_is_a_wrong_setting(text: str) -> None:
    with pytest.raises(ConfigError, match=r"launch\.python"):
        resolve_config([parse_setting(f"launch.python={text}")])


def test_only_trainmark_is_taken_from_the_launching_environment(tmp_path: Path) -> None:
    """In site-packages trainmark lies beside packages of another Python, which must not be imported."""
    package = Path(other_python.__file__).parents[1]
    shutil.copytree(package, tmp_path / "trainmark", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("numpy.py", "trainmark/launch/psutil.py"):
        (tmp_path / name).write_text("raise RuntimeError('of the wrong environment')\n")
    script = tmp_path / "trainmark" / "launch" / "other_python.py"
    done = subprocess.run(
        [sys.executable, script, "--check", "numpy", "psutil", "trainmark.spec.config"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    version = list(sys.version_info[:3])
    assert done.stdout == f'\n{{"version": {version}, "missing": [], "error": null}}\n', done.stderr
