"""CoreWatch: what others take of a process's cores, by the kernel's counts; what a process did itself is its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_ceiling_rounds import metric, run_of
from tests.worker_group import run_workers
from trainmark.machine import cpu_usage
from trainmark.machine.cpu_usage import CoreWatch, CpuTimes, ProcessUsage


def measure_on(_rank: int, core: int, path: Path) -> None:
    import torch

    from trainmark.machine.ceilings import measure_ceiling

    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    path.write_text(json.dumps(measure_ceiling(torch.device("cpu"), 0.1)))


def test_a_process_that_computes_on_the_same_core_is_noticed_while_the_ceiling_is_measured(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}}); print('spins', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as burner:
        try:
            assert burner.stdout is not None
            assert burner.stdout.readline() == b"spins\n"
            run_workers(measure_on, (core, tmp_path / "ceiling.json"), 1)
        finally:
            burner.kill()
    event = json.loads((tmp_path / "ceiling.json").read_text())
    assert event["cores"] == 1
    if event["no_progress"] is not None:
        pytest.skip(event["no_progress"])
    found = metric("ceiling_flops", run_of({"kind": "ceiling", "wall_s": 95.0, "phase": "before", **event}))
    assert "of member 0 rank 0 while the ceiling was measured before training" in str(found.reason)


class WrittenCounts:
    """What the kernel counts, in ticks of the first core this process may use and in seconds of processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.busy = self.steal = 0
        self.own_s = self.children_s = self.now_s = 0.0
        self.is_listed = True
        core = min(os.sched_getaffinity(0))
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {core})
        monkeypatch.setattr(cpu_usage, "CLOCK_TICK_S", 0.01)
        monkeypatch.setattr(
            cpu_usage,
            "read_cpu_times",
            lambda _: {core: CpuTimes(self.busy, 0, 0, self.steal, 0)} if self.is_listed else {},
        )
        monkeypatch.setattr(cpu_usage, "read_children", lambda _: ProcessUsage(self.children_s, 0, 0))
        monkeypatch.setattr(cpu_usage.time, "process_time", lambda: self.own_s)
        monkeypatch.setattr(cpu_usage.time, "monotonic", lambda: self.now_s)


def test_others_took_what_the_cores_did_beyond_the_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = WrittenCounts(monkeypatch)
    watch = CoreWatch()
    counts.busy, counts.steal, counts.own_s, counts.children_s, counts.now_s = 90, 10, 0.4, 0.2, 1.0
    assert watch.read() == {"over_s": 1.0, "others_s": pytest.approx(0.9 - 0.6 + 0.1)}
    counts.busy, counts.own_s, counts.now_s = 140, 0.95, 1.5  # half a second more, all of it the process's own
    assert watch.read() == {"over_s": 0.5, "others_s": 0.0}
    assert watch.no_progress is None


def test_counts_that_do_not_show_the_process_itself_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = WrittenCounts(monkeypatch)
    watch = CoreWatch()
    counts.own_s = counts.now_s = 1.0  # a container whose /proc/stat stands still
    assert watch.read() == {"over_s": 1.0, "others_s": None}
    assert watch.no_progress == "/proc/stat shows 0.00 s of work on cores on which this process alone worked 1.00 s"


def test_cores_that_are_not_listed_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = WrittenCounts(monkeypatch)
    counts.is_listed = False
    watch = CoreWatch()
    assert watch.read()["others_s"] is None
    assert watch.no_progress == "/proc/stat does not list the cores of this process"
