"""The ceiling of a rank's cores, measured before the first and after the last training on them, with busy neighbours.

Beside idle neighbours, clock rates and cache shares are higher than training could have had.
"""

import sys
import time
from typing import Literal

from trainmark.spec.files import write_text
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import Ceiling, CeilingStart
from trainmark.spec.plan import Job, Plan
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.spec.stored_run import read_config_and_plan
from trainmark.train.engine import Engine, RankContext
from trainmark.train.shared_store import Store, broadcast

AFTER = "trainmark/ceiling_after"
POLL_S = 0.2
MAX_WAIT_S = 30.0
MAX_WAIT_ON_SLURM_S = 3.0  # its launcher reads the events at most six seconds after the completion record


def measure_before(context: RankContext, engine: Engine) -> None:
    """Measures in the first member of each lane; members that start together measure together."""
    if context.config.measure.ceiling and context.record.job.is_first_of_lane:
        _measure(context, engine, "before")


def measure_after(context: RankContext, engine: Engine, store: Store | None, max_wait_s: float | None) -> None:
    """Measures in the last member of each lane, unless another lane of its nodes is idle by then.

    `max_wait_s` None: other lanes are ignored. The member is trained already, so errors here do not fail it.
    """
    if not context.config.measure.ceiling:
        return
    try:
        if broadcast(store, context.rank.rank, AFTER, lambda: _decide(context, max_wait_s)) == "yes":
            engine.barrier()
            _measure(context, engine, "after")
    except Exception as error:  # noqa: BLE001  see above
        _warn(error)


def _decide(context: RankContext, max_wait_s: float | None) -> str:
    """Returns "yes" or "no" and never raises: the other ranks wait for the answer."""
    try:
        return "yes" if _is_due(context.record, context.attempt, max_wait_s) else "no"
    except Exception as error:  # noqa: BLE001  a full disk, a damaged plan
        _warn(error)
        return "no"


def _is_due(record: JobRecord, attempt: AttemptFolder, max_wait_s: float | None) -> bool:
    """Whether this member is the last of its lane, and its neighbours are still busy; decided by rank 0 alone."""
    _, plan = read_config_and_plan(record.folder)
    if record.job.member != max(job.member for job in plan.jobs if job.lane == record.job.lane):
        return False
    return max_wait_s is None or wait_for_neighbours(record.folder, record.job, attempt, plan, max_wait_s)


def _warn(error: Exception) -> None:
    sys.stderr.write(f"trainmark: ceiling not measured after training: {type(error).__name__}: {error}\n")


def _measure(context: RankContext, engine: Engine, phase: Literal["before", "after"]) -> None:
    context.log.write(CeilingStart())
    context.log.write(Ceiling(phase=phase, **engine.measure_ceiling()))


def max_wait_s_of(record: JobRecord, training_s: float) -> float:
    """How long a trained member waits for its neighbours, whose training times differ by a few percent."""
    if record.config.launch.jobs_outlive_launcher:
        return MAX_WAIT_ON_SLURM_S
    return min(MAX_WAIT_S, 1 + 0.1 * training_s)


def wait_for_neighbours(folder: RunFolder, job: Job, attempt: AttemptFolder, plan: Plan, max_wait_s: float) -> bool:
    """Returns True once the other lanes on its nodes are trained or time is up, False as soon as one is idle."""
    others: dict[int, list[int]] = {}
    for each in plan.jobs:
        if each.lane != job.lane and set(each.nodes) & set(job.nodes):
            others.setdefault(each.lane, []).append(each.member)
    until_s = time.time() + max_wait_s
    write_text(attempt.trained, repr(until_s))
    while True:
        states = {_state_of(folder, members) for members in others.values()}
        if "idle" in states:
            return False
        if "training" not in states or time.time() > until_s:
            return True
        time.sleep(POLL_S)


def _state_of(folder: RunFolder, members: list[int]) -> Literal["training", "trained", "idle"]:
    """The state of a lane; a "trained" one is waiting for its neighbours."""
    newest = next(((member, number) for member in reversed(members) if (number := folder.num_attempts(member))), None)
    if newest is None:
        return "idle"
    attempt = folder.attempt(*newest)
    try:
        return "trained" if time.time() <= float(attempt.trained.read_text()) else "idle"
    except (FileNotFoundError, ValueError):
        return "idle" if attempt.exit.exists() else "training"
