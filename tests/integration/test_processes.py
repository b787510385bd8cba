"""Members as real processes of this one: a member whose rank has failed does not go on because its program does."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from trainmark.launch import processes
from trainmark.launch.processes import ProcessLauncher
from trainmark.launch.starter import ProcessCommand
from trainmark.plan.resolve import resolve_config
from trainmark.spec.config import RunConfig
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot

SITE = Site(name="site", groups=(NodeGroup(slots=(Slot(cores=(0,)),)),))


class Sleepers:
    """Programs that go on for a minute, whatever happens to the ranks that they stand for."""

    def check(self, config: RunConfig, plan: Plan, site: Site) -> None:
        """Nothing to check."""

    def script(self, record: JobRecord) -> str:
        """Nothing to read."""
        return ""

    def commands(self, record: JobRecord, number: int, attempt: AttemptFolder) -> list[ProcessCommand]:
        """A sleeper."""
        return [ProcessCommand("sleep", ("sleep", "60"), {}, attempt.mpirun_log)]

    def start_delay_s(self, record: JobRecord) -> float:
        """None."""
        return 0.0

    def has_failed(self, attempt: AttemptFolder) -> bool:
        """Whether a rank has left its mark."""
        return attempt.failed.exists()

    def explain(self, record: JobRecord, attempt: AttemptFolder, codes: list[int | None]) -> str:
        """What the programs did at that moment."""
        return f"a rank failed while its programs had ended with {codes}"


def record_of(folder: Path, member: int) -> JobRecord:
    job = Job(member, 0, (Rank(0, "node1", 0, (0,), None),))
    return JobRecord(RunFolder(folder), resolve_config([]), SITE, job)


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> ProcessLauncher:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    return ProcessLauncher(Sleepers())


def test_a_program_that_goes_on_without_a_failed_rank_is_ended_after_a_grace(
    launcher: ProcessLauncher, tmp_path: Path
) -> None:
    first, second = record_of(tmp_path, 0), record_of(tmp_path, 1)
    assert launcher.submit([first, second]) == [first]  # one lane
    assert launcher.poll() == []
    attempt = first.folder.attempt(0, 1)
    attempt.failed.touch()
    assert launcher.poll() == []  # it may still end by itself
    begun = time.monotonic()
    while not (ended := launcher.poll()):
        assert time.monotonic() - begun < 10
        time.sleep(0.02)
    assert ended == [first]
    assert time.monotonic() - begun > 0.4
    written = json.loads(attempt.exit.read_text())
    assert (written["state"], written["exit_codes"]) == ("failed", {"sleep": -15})
    assert written["reason"] == "a rank failed while its programs had ended with [None]"
    assert launcher.submit([second]) == [second]
    launcher.cancel()
    assert json.loads(second.folder.attempt(1, 1).exit.read_text())["state"] == "stopped"


def test_a_program_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    started = "import subprocess, sys, time; from trainmark.machine.orphans import ending_with_us as us\n"
    started += "print(subprocess.Popen(us((sys.argv[1], '60'))).pid, flush=True); time.sleep(60)"
    command = [sys.executable, "-c", started, str(shutil.which("sleep"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        deadline = time.monotonic() + 10
        while psutil.Process(child).name() != "sleep":
            assert time.monotonic() < deadline
        parent.kill()
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
