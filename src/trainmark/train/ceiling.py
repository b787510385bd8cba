"""The ceiling of a rank's cores, measured before the first and after the last training on them, neighbours busy too.

Beside idle neighbours clocks are higher and caches larger: training could not have reached that ceiling.
"""

import sys
import time
from collections.abc import Callable
from typing import Literal

import torch

from trainmark.machine.ceilings import measure_ceiling
from trainmark.spec.files import write_text
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import Ceiling, CeilingStart
from trainmark.spec.plan import Job, Plan
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.stored_run import read_choices
from trainmark.train.end_request import Store
from trainmark.train.event_log import EventLog
from trainmark.train.torch.process_group import barrier

AFTER = "trainmark/ceiling_after"
POLL_S = 0.2
MOST_PATIENCE_S = 30.0
PATIENCE_ON_SLURM_S = 3.0  # its launcher reads the events six seconds after the completion record at the latest


def measure_before(record: JobRecord, device: torch.device, log: EventLog) -> None:
    """The first member of each lane measures; those that start together do so at the same moment."""
    if record.config.measure.ceiling and record.job.is_first_of_lane:
        _measure(record, device, log, "before")


def measure_after(
    record: JobRecord,
    rank: int,
    attempt: AttemptFolder,
    device: torch.device,
    log: EventLog,
    store: Store | None,
    patience_s: float | None,
) -> None:
    """The last member of each lane measures, unless other lanes of its nodes have become idle by then.

    Without `patience_s` it does not look at them. The member is trained: what goes wrong here does not fail it.
    """
    if not record.config.measure.ceiling:
        return
    try:
        if _agree(lambda: _is_due(record, attempt, patience_s), rank, store):
            barrier()
            _measure(record, device, log, "after")
    except Exception as error:  # noqa: BLE001  see above
        _complain(error)


def _is_due(record: JobRecord, attempt: AttemptFolder, patience_s: float | None) -> bool:
    """Whether this member is the last of its lane, and its neighbours are still busy; decided by rank 0 alone."""
    _, plan = read_choices(record.folder)
    if record.job.member != max(job.member for job in plan.jobs if job.lane == record.job.lane):
        return False
    return patience_s is None or wait_for_neighbours(record.folder, record.job, attempt, plan, patience_s)


def _complain(error: Exception) -> None:
    sys.stderr.write(f"trainmark: no ceiling was measured after training: {type(error).__name__}: {error}\n")


def _measure(record: JobRecord, device: torch.device, log: EventLog, phase: Literal["before", "after"]) -> None:
    precision = record.config.train.precision
    assert precision is not None
    if device.type == "cuda":
        torch.cuda.empty_cache()
    log.write(CeilingStart())
    log.write(Ceiling(phase=phase, **measure_ceiling(device, record.config.measure.ceiling_seconds, precision)))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def _agree(decide: Callable[[], bool], rank: int, store: Store | None) -> bool:
    """What rank 0 decides; the other ranks wait for its word."""
    if rank > 0:
        assert store is not None
        return store.get(AFTER) == b"yes"
    is_so = False
    try:
        is_so = decide()
    except Exception as error:  # noqa: BLE001  a full disk, a damaged plan; the others must hear of it all the same
        _complain(error)
    if store is not None:
        store.set(AFTER, "yes" if is_so else "no")
    return is_so


def patience_of(record: JobRecord, training_s: float) -> float:
    """How long a trained member waits for its neighbours: they end some percent of their time apart."""
    if record.config.launch.jobs_outlive_launcher:
        return PATIENCE_ON_SLURM_S
    return min(MOST_PATIENCE_S, 1 + 0.1 * training_s)


def wait_for_neighbours(folder: RunFolder, job: Job, attempt: AttemptFolder, plan: Plan, patience_s: float) -> bool:
    """Whether all other lanes of the member's nodes are busy: have ended training as well, or still train by then."""
    others: dict[int, list[int]] = {}
    for each in plan.jobs:
        if each.lane != job.lane and set(each.nodes) & set(job.nodes):
            others.setdefault(each.lane, []).append(each.member)
    until_s = time.time() + patience_s
    write_text(attempt.trained, repr(until_s))
    while True:
        states = {_state_of(folder, members) for members in others.values()}
        if "idle" in states:
            return False
        if "training" not in states or time.time() > until_s:
            return True
        time.sleep(POLL_S)


def _state_of(folder: RunFolder, members: list[int]) -> Literal["training", "trained", "idle"]:
    """What a lane does; "trained" ones wait for their neighbours."""
    newest = next(((member, number) for member in reversed(members) if (number := folder.num_attempts(member))), None)
    if newest is None:
        return "idle"
    attempt = folder.attempt(*newest)
    try:
        return "trained" if time.time() <= float(attempt.trained.read_text()) else "idle"
    except (FileNotFoundError, ValueError):
        return "idle" if attempt.exit.exists() else "training"
