"""Members as real processes of this one: a member whose rank has failed does not go on because its program does."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.local_runs import LocalRun
from tests.planned import planned_config
from tests.two_cores import CORES
from tests.waiting import wait_until
from trainmark.launch import processes
from trainmark.launch.processes import ProcessCommand, ProcessLauncher
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
    return JobRecord(RunFolder(folder), planned_config(), SITE, job)


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> ProcessLauncher:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    return ProcessLauncher(Sleepers())


def test_a_program_that_goes_on_without_a_failed_rank_is_ended_after_a_grace(
    launcher: ProcessLauncher, tmp_path: Path
) -> None:
    first, second = record_of(tmp_path, 0), record_of(tmp_path, 1)
    assert launcher.submit([first, second]) == [first]  # one lane
    assert launcher.take_ended(first.folder) == []
    attempt = first.folder.attempt(0, 1)
    attempt.failed.touch()
    assert launcher.take_ended(first.folder) == []  # it may still end by itself
    begun = time.monotonic()
    while not (ended := launcher.take_ended(first.folder)):
        assert time.monotonic() - begun < 10
        time.sleep(0.02)
    assert ended == [first]
    assert time.monotonic() - begun > 0.4
    written = json.loads(attempt.exit.read_text())
    assert (written["state"], written["exit_codes"]) == ("failed", {"sleep": -15})
    assert written["reason"] == "a rank failed while its programs had ended with [None]"
    assert launcher.submit([second]) == [second]
    launcher.cancel(second.folder)
    assert json.loads(second.folder.attempt(1, 1).exit.read_text())["state"] == "stopped"


def test_a_program_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    started = "import subprocess, sys, time; from trainmark.machine.processes import tied_to_us as us\n"
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


def workers_of(folder: Path) -> list[psutil.Process]:
    """The processes of this machine, in whatever container, that train a member of a run in the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if "python" in words[0] and "trainmark.train.worker" in words and any(str(folder) in word for word in words):
            found.append(process)
    return found


def test_a_rank_in_a_container_trains_tells_where_it_stands_and_ends_with_its_launcher(
    start_here: Callable[..., LocalRun], tmp_path: Path
) -> None:
    container = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*container, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    site = tmp_path / "site.toml"
    site.write_text(
        f'name = "s"\ncontainer = {json.dumps(container)}\n[[groups]]\nslots = [{{ cores = "{CORES[0]}" }}]\n'
    )
    run = start_here("--members", "1", "--set", "train.epochs=500", "--site", str(site))
    run.wait_for("run_start")
    assert run.pid(0) == 1  # by the container's own count, in which its parent has no number
    (worker,) = workers_of(tmp_path)
    worker.send_signal(signal.SIGUSR1)
    log = run.folder / "jobs/0000/attempt-1/rank-0.log"
    wait_until(lambda: "most recent call first" in log.read_text())
    wait_until(lambda: len([event for event in run.events(0) if event["kind"] == "epoch_stop"]) > 1)  # it goes on
    run.process.kill()
    run.process.wait()
    wait_until(lambda: not workers_of(tmp_path), seconds=10)
