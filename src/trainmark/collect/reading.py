"""Reading a run's files into Measured, with missing or damaged ones reported by name."""

from pathlib import Path
from typing import Any

from trainmark.collect.measured import Measured, Member, NodeUsage, Problem, load_predictions
from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.event_files import first_of, name_of, read_event_file
from trainmark.spec.events import (
    DataReady,
    EpochStart,
    EpochStop,
    Event,
    RankStarted,
    RunStart,
    RunStop,
    Steps,
)
from trainmark.spec.files import one_line, read_record
from trainmark.spec.length import length_setting
from trainmark.spec.machine_events import Memory, Usage, UsageStart
from trainmark.spec.member_state import STILL_WRITING, RunActivity, member_status
from trainmark.spec.model_events import ModelReady
from trainmark.spec.plan import Job, Plan
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.status import MemberState
from trainmark.spec.units import counted

DONE = {"member": int}  # required in done.json
EXPECTED_EVENTS = (RankStarted, RunStart, RunStop, Memory)
EXPECTED_OF_RANK_0 = (DataReady, ModelReady, EpochStart, Steps, EpochStop)
MAX_LINES_NAMED = 3


def read_measured(folder: RunFolder, config: RunConfig, plan: Plan, quality: Any, activity: RunActivity) -> Measured:
    """Reads a run folder, also of a run that is in progress, was killed, or has lost files."""
    members = tuple(_read_member(folder, config, job, activity) for job in plan.jobs)
    return Measured(config, plan, quality, members)


def _read_member(folder: RunFolder, config: RunConfig, job: Job, activity: RunActivity) -> Member:
    status = member_status(folder, job, activity)
    state, attempt = status.state, folder.attempt(job.member, max(1, status.attempts))
    events, lost = _read_ranks(folder, attempt, job, train=config.train, state=state)
    done, done_problem = None, None
    if state == "finished":
        done, done_problem = read_record(attempt.done, folder.name_of(attempt.done), DONE)
    quality, epochs = ((done or {}).get(name) for name in ("quality", "epochs"))
    return Member(
        job=job,
        attempts=status.attempts,
        state=state,
        reason=status.reason,
        exit=status.exit,
        events=events if status.attempts else (),
        load_predictions=lambda: load_predictions(attempt.predictions),
        load_usage=lambda: _read_usage(folder, attempt, job, is_over=state not in STILL_WRITING),
        problems=tuple(problem for problem in (*lost, status.problem, done_problem) if problem),
        is_whole=state != "finished" or not lost,
        final_quality=float(quality) if isinstance(quality, int | float) else None,
        final_epochs=float(epochs) if isinstance(epochs, int | float) else None,
        predictions_file=folder.name_of(attempt.predictions),
    )


def _read_ranks(
    folder: RunFolder, attempt: AttemptFolder, job: Job, train: TrainConfig, state: MemberState
) -> tuple[tuple[tuple[Event, ...], ...], list[str]]:
    """Returns the events of each rank, and problems with them; unfinished members may lack events."""
    of_ranks, problems = [], []
    for rank in job.ranks:
        path = attempt.rank_events(rank.rank)
        # Ranks of a finished member may still measure the ceiling until the launcher has recorded their end.
        is_over = attempt.exit.exists() if state == "finished" else state not in STILL_WRITING
        events, problem = _read_rank(folder, path, is_over=is_over)
        if state == "finished" and problem is None and (gap := _gap_in(events, rank.rank, train)):
            problem = f"{folder.name_of(path)} {gap}"
        of_ranks.append(events)
        if problem is not None and (state == "finished" or path.exists()):
            problems.append(problem)
    return tuple(of_ranks), problems


def _read_usage(folder: RunFolder, attempt: AttemptFolder, job: Job, *, is_over: bool) -> tuple[NodeUsage, ...]:
    """Reads the usage of a member's nodes, without nodes that have none."""
    found = []
    for number, node in enumerate(job.nodes):
        path = attempt.usage(number)
        events, problem = _read_rank(folder, path, is_over=is_over)
        start = first_of(UsageStart, events)
        if start is not None:
            rank = next(rank.rank for rank in job.ranks if rank.node == node)
            samples = tuple(event for event in events if isinstance(event, Usage))
            found.append(NodeUsage(node, rank, folder.name_of(path), start, samples, problem))
    return tuple(found)


def _read_rank(folder: RunFolder, path: Path, *, is_over: bool) -> tuple[tuple[Event, ...], Problem]:
    """Reads a rank's events, and reports damaged lines; `is_over`: the file is no longer written."""
    name = folder.name_of(path)
    try:
        events, damaged = read_event_file(path, is_over=is_over)
    except FileNotFoundError:
        return (), f"{name} is missing"
    except OSError as error:
        return (), f"{name} is unreadable: {one_line(error)}"
    if not damaged:
        return events, None
    named = ", ".join(map(str, damaged[:MAX_LINES_NAMED])) + (", …" if len(damaged) > MAX_LINES_NAMED else "")
    return events, f"{name} has {counted(len(damaged), 'damaged line')} (number {named})"


def _gap_in(events: tuple[Event, ...], rank: int, train: TrainConfig) -> Problem:
    """Returns what is missing among the events of a rank that finished; None if nothing is."""
    expected: tuple[type[Event], ...] = EXPECTED_EVENTS if rank else (*EXPECTED_EVENTS, *EXPECTED_OF_RANK_0)
    if missing := [name_of(kind) for kind in expected if first_of(kind, events) is None]:
        return f"lacks {', '.join(missing)}"
    step: int | None = None
    for event in events:
        if isinstance(event, EpochStart):
            step = event.step if step is None else step
        elif isinstance(event, Steps):
            if step is not None and event.first_step < step:
                return f"repeats steps from {event.first_step} on"
            if step is not None and event.first_step > step:
                return f"lacks steps {step} to {event.first_step - 1}"
            step = event.first_step + len(event.step_s)
        elif isinstance(event, EpochStop) and step is not None and event.next_step != step:
            return f"lacks steps {step} to {event.next_step - 1}"
    started = {event.epoch for event in events if isinstance(event, EpochStart)}
    ended = {event.epoch for event in events if isinstance(event, EpochStop)}
    is_in_epochs = length_setting(train) == "train.epochs" and not train.stop_at_target
    if started != ended or (ended and is_in_epochs and max(ended) + 1 != train.epochs):
        return f"lacks the start or end of an epoch{f' of {train.epochs}' if is_in_epochs else ''}"
    last = next(event.step for event in reversed(events) if isinstance(event, RunStop))
    if step is not None and last is not None and step < last:
        return f"lacks steps {step} to {last - 1}"
    return None
