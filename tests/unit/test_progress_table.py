"""What a run says of its members while it watches them."""

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.planned import planned_config
from trainmark.collect.progress import ProgressReader, mark_queued
from trainmark.report.live import LiveProgress
from trainmark.report.progress_table import count_states, progress_line, run_state
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import MemberProgress, QueueState

STARTING = [MemberProgress(member, state="starting", attempt=1, epochs=4) for member in range(3)]


def test_members_whose_jobs_wait_are_counted_as_queued_with_slurms_reason() -> None:
    waiting = QueueState("7_0", "PENDING", "", "PartitionConfig")
    seen = {0: waiting, 1: waiting, 2: QueueState("7_2", "RUNNING", "n1")}
    assert count_states(mark_queued(STARTING, seen)) == "2 queued (PartitionConfig), 1 starting"


def test_where_there_is_no_scheduler_members_are_what_their_events_say() -> None:
    assert progress_line(mark_queued(STARTING, {})) == "3 starting"


def written_member(folder: RunFolder, *kinds: str) -> None:
    path = folder.attempt(0, 1).rank_events(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    affinity = {"cores_asked": "0", "cores_allowed": "0", "threads_asked": 1, "threads_running": 1, "verified": True}
    fields = {
        "rank_started": {"affinity": affinity},
        "data_ready": {"draws": 64, "fingerprint": "f"},
        "ceiling": {"flops": 1e9, "kernel": "k"},
        "steps": {"first_step": 0, "step_s": [0.5], "wait_s": [0.0], "loss": [2.25], "learning_rate": [0.1]},
    }
    with path.open("a") as file:
        for kind in kinds:
            file.write(json.dumps({"kind": kind, "wall_s": 0.0, "epoch": 0, "step": 0, **fields.get(kind, {})}) + "\n")


def test_a_member_that_starts_shows_what_it_is_at(tmp_path: Path) -> None:
    folder, config = RunFolder(tmp_path), planned_config(train={"epochs": 2, "batch_size": 32})
    plan = Plan(1, 1, 1, "s", 1, 1, 1, 0, (Job(0, 0, (Rank(0, "n", 0, (0,), None),)),))
    reader = ProgressReader(folder, config, plan)
    seen = [progress_line(reader.read())]
    folder.attempt(0, 1).path.mkdir(parents=True)
    seen.append(progress_line(reader.read()))
    for kind in ("", "rank_started", "data_ready", "start_wait", "ceiling_start", "ceiling"):
        written_member(folder, *([kind] if kind else []))
        seen.append(progress_line(reader.read()))
    written_member(folder, "run_start", "epoch_start")
    seen.append(progress_line(reader.read()))
    written_member(folder, "steps")
    seen.append(progress_line(reader.read()))
    assert seen == [
        "1 waiting",
        "1 starting",
        "1 loading torch",
        "1 opening data",
        "1 building model",
        "1 at start barrier",
        "1 measuring ceiling",
        "1 waiting for workers",
        "1 warming up",
        "1 training; member 0 epoch 1/2 loss 2.250 64 samples/s, 1.5 s left",
    ]


def test_lines_come_at_once_then_for_each_phase_and_then_every_ten_seconds() -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = LiveProgress(Console(file=stream, width=200), clock=lambda: now[0])
    training = {"state": "training", "loss": 1.0, "samples_per_s": 8.0, "seconds_left": 30.0}
    seen: dict[int, dict[str, Any]] = {0: {"state": "starting"}, 2: {"state": "starting", "phase": "loading torch"}}
    seen |= {5: {"state": "training", "phase": "warming up"}, 7: training}
    for second in range(30):
        now[0] = float(second)
        newest = seen[max(known for known in seen if known <= second)]
        progress(RunFolder(Path("/runs/one")), lambda newest=newest: [MemberProgress(0, epochs=2, **newest)])
    figures = "1 training; member 0 epoch 1/2 loss 1.000 8 samples/s, 30 s left"
    assert stream.getvalue().splitlines() == [
        "run one in /runs/one",
        "[    0 s] 1 starting",
        "[    2 s] 1 loading torch",
        "[    5 s] 1 warming up",
        f"[    7 s] {figures}",
        f"[   17 s] {figures}",
        f"[   27 s] {figures}",
    ]


def test_the_state_of_a_run_follows_from_its_launcher_and_its_members() -> None:
    finished = [MemberProgress(0, state="finished")]
    assert run_state(STARTING, is_alive=True) == "running"
    assert run_state(STARTING, is_alive=False) == "running as jobs; the launcher has ended"
    assert run_state(finished, is_alive=False) == "all members finished"
    assert run_state([*finished, MemberProgress(1, state="stopped")], is_alive=False) == "not running"
