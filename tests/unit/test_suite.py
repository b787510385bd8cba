"""The test suite itself: a test process that crashes or hangs fails it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

CRASHES = "import os\n\ndef test_it():\n    os.abort()\n"
# PyDLL keeps Python's lock during the call, as a deadlock inside malloc would.
HANGS = "import ctypes\n\ndef test_it():\n    ctypes.PyDLL(None).pause()\n"


@pytest.mark.parametrize("text", [CRASHES, HANGS], ids=["crash", "hang"])
def test_a_test_process_that_crashes_or_hangs_fails_the_suite(text: str, tmp_path: Path) -> None:
    (tmp_path / "test_bad.py").write_text(text)
    (tmp_path / "test_good.py").write_text("def test_it():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    options = ["--numprocesses", "2", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=2", str(tmp_path)]
    ended = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "crashed while running 'test_bad.py::test_it'" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout
