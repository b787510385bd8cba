"""Every launcher: its script is valid shell, holds exactly the worker's words, and survives hostile names."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainmark.plan.resolve import Choices, resolve_config
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Job, Rank
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot

JOB = Job(member=3, lane=1, ranks=(Rank(0, "n1", 0, (0, 1), None), Rank(1, "n1", 1, (2, 3), None)))
SITE = Site(name="site", groups=(NodeGroup(names=("n1",), slots=(Slot(cores="0-1"), Slot(cores="2-3"))),))
CONFIG = resolve_config([Choices("test", {"launch": {"allocator": "keep"}})])


def script_of(launcher: str, path: str) -> str:
    text: str = LAUNCHERS.load(launcher)().script(JobRecord(RunFolder(Path(path)), CONFIG, SITE, JOB))
    return text


@pytest.mark.parametrize("name", list(LAUNCHERS))
def test_its_script_starts_one_worker_per_rank(name: str) -> None:
    lines = [shlex.split(line) for line in script_of(name, "/data/my run").splitlines() if "train.worker" in line]
    assert len(lines) == 2
    for rank, words in enumerate(lines):
        assert "OMP_NUM_THREADS=2" in words
        assert "/data/my run/jobs/0003/job.json" in words
        assert words[words.index("--rank") + 1] == str(rank)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stands where Python would, and writes down the words it was called with."""
    path = tmp_path_factory.mktemp("recorder") / "python"
    path.write_text('#!/bin/bash\nprintf "%s\\0" "$@" >"$(dirname "$0")/called-$6"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", list(LAUNCHERS))
@settings(max_examples=40, deadline=None)
@given(path=st.text(st.characters(exclude_characters="\0/", codec="utf-8"), min_size=1, max_size=30))
@example(path="a\nno_such_command")
@example(path=".")
@example(path="..")
@example(path="$(touch injected)`touch injected`'\"; touch injected #")
def test_a_hostile_folder_name_is_one_word_and_never_a_command(recorder: Path, name: str, path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(recorder))
        script = script_of(name, f"/runs/{path}")
    done = subprocess.run(["/bin/bash"], input=script.encode(), capture_output=True, env={"PATH": "/usr/bin"}, cwd="/")
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")
    assert not Path("/injected").exists()
    for rank in ("0", "1"):
        words = (recorder.parent / f"called-{rank}").read_bytes().split(b"\0")
        # The whole path is one word, as the folder's path has it: "." names no folder of its own.
        assert words[3].decode() == str(Path(f"/runs/{path}") / "jobs" / "0003" / "job.json")
