"""Progress of each member, read from the tails of the event files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trainmark.machine.claims import has_live_claim
from trainmark.spec.config import RunConfig
from trainmark.spec.event_files import read_events
from trainmark.spec.events import (
    DataReady,
    EpochStop,
    Evaluation,
    Event,
    Failed,
    RankStarted,
    Resumed,
    RunStart,
    RunStop,
    StartWait,
    Steps,
)
from trainmark.spec.layout import global_batch
from trainmark.spec.length import length_setting, total_epochs, total_steps
from trainmark.spec.machine_events import Ceiling, CeilingStart, Inference, InferenceStart, StagingStart, StagingStop
from trainmark.spec.member_state import RunActivity, member_status, recorded_status
from trainmark.spec.plan import Job, Plan
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import ACTIVE_STATES, MemberProgress, MemberState, QueueState
from trainmark.spec.stored_run import read_config_and_plan

# What a rank does after each of these events, until the next one.
PHASES: dict[type[Event], str] = {
    RankStarted: "opening data",
    StagingStop: "opening data",
    DataReady: "building model",
    StartWait: "at start barrier",
    CeilingStart: "measuring ceiling",
    Ceiling: "waiting for workers",
    RunStart: "warming up",
    StagingStart: "",
    Steps: "",
    RunStop: "",
    InferenceStart: "measuring inference",
    Inference: "",
    Failed: "",
}


class ProgressReader:
    """Follows all members of a run, reading only new events."""

    def __init__(self, folder: RunFolder, config: RunConfig, plan: Plan) -> None:
        self._folder = folder
        self._config = config
        self._jobs = plan.jobs
        self._offsets: dict[tuple[int, int], int] = {}
        self._steps_per_epoch: dict[int, int] = {}
        self._members = {job.member: MemberProgress(job.member, epochs=self._epochs()) for job in plan.jobs}

    def _epochs(self) -> int | None:
        """The epochs of a training, if its settings tell."""
        train = self._config.train
        return train.epochs if length_setting(train) == "train.epochs" else None

    def read(self) -> list[MemberProgress]:
        """Returns the current progress of every member."""
        for job in self._jobs:
            self._members[job.member] = self._advance(job, self._members[job.member])
        return list(self._members.values())

    def _advance(self, job: Job, known: MemberProgress) -> MemberProgress:
        if known.state == "finished":
            return known
        number = self._folder.num_attempts(job.member)
        if number == 0:
            return known
        attempt = self._folder.attempt(job.member, number)
        key = (job.member, number)
        events, self._offsets[key] = read_events(attempt.rank_events(0), self._offsets.get(key, 0))
        now = known
        if known.attempt != number:
            now = MemberProgress(job.member, state="starting", attempt=number, epochs=known.epochs)
        if not events and now.state == "starting" and not now.phase and attempt.rank_events(0).exists():
            now = replace(
                now, phase=f"loading {self._config.train.engine.partition(':')[0]}"
            )  # rank 0 creates its event file first
        for event in events:
            now = replace(now, phase=PHASES.get(type(event), now.phase), **self._changes(event, job, now.trained_s))
        ended = recorded_status(self._folder, job.member, number)
        if ended is None:
            return now
        return replace(now, state=ended.state, phase="", seconds_left=None if ended.is_missing else 0.0)

    def _changes(self, event: Event, job: Job, trained_s: float) -> dict[str, Any]:
        match event:
            case DataReady(draws=draws, steps_per_epoch=stated):
                per_epoch = stated or max(1, draws // global_batch(self._config.train, len(job.ranks)))
                self._steps_per_epoch[job.member] = per_epoch
                return {"epochs": total_epochs(self._config.train, per_epoch)}
            case Resumed(trained_s=before_s):
                return {"trained_s": before_s}
            case StagingStart():
                return {"state": "staging"}
            case StagingStop():
                return {"state": "starting"}
            case RunStart(epoch=epoch):
                return {"state": "training", "epoch": epoch}
            case Steps():
                return self._after_steps(event, job, trained_s)
            case EpochStop(epoch=epoch):
                return {"epoch": epoch + 1}
            case Evaluation(quality=quality):
                return {"quality": quality}
            case RunStop():
                return {"state": "predicting"}
            case Failed():
                return {"state": "failed"}
        return {}

    def _after_steps(self, event: Steps, job: Job, trained_s: float) -> dict[str, Any]:
        train = self._config.train
        # The median, since a step of the first block includes compilation.
        steps, step_s = len(event.step_s), float(np.median(event.step_s)) if event.step_s else 0.0
        if not step_s > 0:  # damaged file
            return {}
        samples = float(np.mean(event.samples)) if event.samples else global_batch(train, len(job.ranks))
        step = event.first_step + steps
        trained_s += sum(event.step_s)
        return {
            "step": step,
            "loss": next(reversed(event.loss), None),
            "samples_per_s": samples / step_s,
            "seconds_left": self._seconds_left(job.member, step, step_s, trained_s),
            "trained_s": trained_s,
        }

    def _seconds_left(self, member: int, step: int, step_s: float, trained_s: float) -> float | None:
        """The time to the end of training at the latest; None if unknown."""
        train, per_epoch = self._config.train, self._steps_per_epoch.get(member)
        if train.minutes is not None:
            return max(0.0, 60 * train.minutes - trained_s)
        total = None if per_epoch is None else total_steps(train, per_epoch)
        return None if total is None else max(0, total - step) * step_s


def read_progress(folder: RunFolder, queue: Mapping[int, QueueState] | None) -> list[MemberProgress]:
    """Returns the progress of every member of a stored run; `queue` has the scheduler's states, if reachable."""
    activity = RunActivity(has_live_claim(folder), queue)
    config, plan = read_config_and_plan(folder)
    members = ProgressReader(folder, config, plan).read()
    statuses = [member_status(folder, job, activity) for job in plan.jobs]
    return [_decided(member, status.state, activity) for member, status in zip(members, statuses, strict=True)]


def _decided(member: MemberProgress, state: MemberState, activity: RunActivity) -> MemberProgress:
    """Returns the member in its common state; a running one keeps its finer state."""
    job = (activity.queue or {}).get(member.member)
    if state == "running":
        return replace(member, job=job)
    seconds_left = member.seconds_left if state in ("finished", "queued") else None
    return replace(member, state=state, phase="", seconds_left=seconds_left, job=job)


def mark_queued(members: list[MemberProgress], queue: Mapping[int, QueueState]) -> list[MemberProgress]:
    """Returns the members, marking those as queued whose job is pending in the scheduler."""
    return [
        replace(each, state="queued", phase="", job=job)
        if each.state in ACTIVE_STATES and job is not None and job.is_waiting
        else each
        for each in members
        for job in (queue.get(each.member),)
    ]
