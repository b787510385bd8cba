"""Several real runs followed together: one after another on this machine, all at once on a Slurm cluster."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.runs import SITE
from tests.run_events import events_of
from tests.two_cores import on_two_cores
from tests.waiting import wait_until
from trainmark import pipeline
from trainmark.launch.slurm import queue
from trainmark.machine.local_site import local_site
from trainmark.plan.resolve import parse_setting, read_site_file, resolve_config
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import Site
from trainmark.spec.status import MemberProgress

SHORT = ("train.epochs=1", "data.num_train=200", "data.num_eval=50", "measure.ceiling=false", "launch.threads=1")
LONG = ("train.epochs=4", "data.num_train=800", "data.num_eval=50", "measure.ceiling=false", "launch.threads=1")
ONE = ("ensemble.members=1", "ensemble.workers=1")
TWO = ("ensemble.members=2", "ensemble.workers=1")

# Follows the runs whose folders it is given, in a process that a test can kill.
FOLLOW = """
import sys
from pathlib import Path
from trainmark import pipeline
from trainmark.spec.run_folder import RunFolder
list(pipeline.follow([RunFolder(Path(path)) for path in sys.argv[1:]], lambda folder, read: None))
"""


def ignore(*_: object) -> None:
    """No progress is shown."""


def prepared(runs_dir: Path, site: Site, *settings: str) -> RunFolder:
    config = resolve_config([parse_setting(text) for text in settings])
    return pipeline.prepare(pipeline.plan_run(config, site, Places.of(runs_dir), dry_run=False), ignore, ignore)


def first_event(folder: RunFolder, kind: str, member: int = 0, attempt: int = 1) -> float | None:
    """When it was; None where it has not been yet."""
    try:
        events = events_of(folder.path, member, attempt)
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return next((float(event["wall_s"]) for event in events if event["kind"] == kind), None)


@contextmanager
def following(*folders: RunFolder) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows the runs; it is killed in the end, if it still runs."""
    words = [sys.executable, "-c", FOLLOW, *(str(folder.path) for folder in folders)]
    process = subprocess.Popen(words, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, preexec_fn=on_two_cores)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def two_cores() -> Iterator[None]:
    """As every command of the other tests: no more than two cores, which ranks inherit."""
    cores = os.sched_getaffinity(0)
    on_two_cores()
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("two_cores")
def test_three_local_runs_train_one_after_another_and_the_diverging_one_in_the_middle_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    diverges = ("train.learning_rate=1e30", "train.warmup_epochs=0")
    folders = [prepared(tmp_path, local_site(), *SHORT, *ONE, *more) for more in ((), diverges, ())]
    assert [path for folder in folders for path in folder.path.glob("jobs/*")] == []  # nothing is launched yet
    looked: list[RunFolder] = []
    results = list(pipeline.follow(folders, lambda folder, read: looked.append(folder)))
    assert [result.run_id for result in results] == [folder.run_id for folder in folders]
    assert [result.state for result in results] == ["complete", "failed", "complete"]
    assert [json.loads(folder.result.read_text())["state"] for folder in folders] == ["complete", "failed", "complete"]
    assert list(dict.fromkeys(looked)) == folders
    assert looked == sorted(looked, key=folders.index)  # never two at a time
    ended, begun = first_event(folders[0], "finished"), first_event(folders[2], "rank_started")
    assert ended is not None
    assert begun is not None and ended < begun


@pytest.mark.usefixtures("two_cores")
def test_after_a_kill_in_the_middle_both_local_runs_go_on_with_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    first = prepared(tmp_path, local_site(), *LONG, *ONE)
    second = prepared(tmp_path, local_site(), *SHORT, *ONE)
    with following(first, second) as process:
        wait_until(lambda: first_event(first, "run_start") is not None)
        process.kill()
    assert not (second.path / "jobs").exists()
    folders = [pipeline.reopen(folder, ignore) for folder in (first, second)]
    results = list(pipeline.follow(folders, ignore))
    assert [result.state for result in results] == ["complete", "complete"]
    assert [result.members[0].attempts for result in results] == [2, 1]


@pytest.fixture
def on_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The site of the test cluster, which this process can reach."""
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return read_site_file(SITE)


def test_two_runs_are_in_slurms_queue_at_once_and_followed_by_one_squeue_per_poll(
    tmp_path: Path, on_cluster: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    call = queue.call

    def counted(*words: str) -> str:
        calls.append(words)
        return call(*words)

    folders = [prepared(tmp_path, on_cluster, *SHORT, *TWO, "launch.launcher=slurm") for _ in range(2)]
    monkeypatch.setattr(queue, "call", counted)
    at_once: list[set[RunFolder]] = []
    looks: list[RunFolder] = []

    def watch(folder: RunFolder, read: Callable[[], list[MemberProgress]]) -> None:
        looks.append(folder)
        jobs = {each: queue.read_queue(each.run_id) for each in folders} if len(looks) < 3 else {}
        at_once.append({each for each, found in jobs.items() if any(job.state.is_active for job in found.values())})

    results = list(pipeline.follow(folders, watch))
    assert sorted(result.run_id for result in results) == sorted(folder.run_id for folder in folders)
    assert [result.state for result in results] == ["complete", "complete"]
    assert set(folders) in at_once
    programs = [words[0] for words in calls]
    assert programs[:4] == ["scontrol", "sbatch", "sbatch", "squeue"]
    asked_by_the_test = 2 * 2  # by its first two watches, for each run
    num_looks = max(looks.count(folder) for folder in folders)
    assert programs.count("squeue") - asked_by_the_test == num_looks
    both = ",".join(sorted(folder.run_id for folder in folders))
    assert f"--name={both}" in calls[3]


def test_after_a_kill_both_runs_go_on_in_slurm_and_are_collected_without_a_second_try(
    tmp_path: Path, on_cluster: Site
) -> None:
    folders = [prepared(tmp_path, on_cluster, *LONG, *ONE, "launch.launcher=slurm") for _ in range(2)]
    with following(*folders) as process:
        wait_until(lambda: all(first_event(folder, "run_start") is not None for folder in folders))
        process.send_signal(signal.SIGKILL)
    results = list(pipeline.follow([pipeline.reopen(folder, ignore) for folder in folders], ignore))
    assert [result.state for result in results] == ["complete", "complete"]
    assert [result.members[0].attempts for result in results] == [1, 1]
    assert all(len(list((folder.path / "submissions").glob("*.json"))) == 1 for folder in folders)
