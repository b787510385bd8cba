"""The ceiling of a rank's cores, measured before the first and after the last training on them, neighbours busy too.

Beside idle neighbours clocks are higher and caches larger: training could not have reached that ceiling.
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
from trainmark.train.agreement import Store, word_of_first
from trainmark.train.engine import Engine, RankContext

AFTER = "trainmark/ceiling_after"
POLL_S = 0.2
MOST_PATIENCE_S = 30.0
PATIENCE_ON_SLURM_S = 3.0  # its launcher reads the events six seconds after the completion record at the latest


def measure_before(context: RankContext, engine: Engine) -> None:
    """The first member of each lane measures; those that start together do so at the same moment."""
    if context.config.measure.ceiling and context.record.job.is_first_of_lane:
        _measure(context, engine, "before")


def measure_after(context: RankContext, engine: Engine, store: Store | None, patience_s: float | None) -> None:
    """The last member of each lane measures, unless other lanes of its nodes have become idle by then.

    Without `patience_s` it does not look at them. The member is trained: what goes wrong here does not fail it.
    """
    if not context.config.measure.ceiling:
        return
    try:
        if word_of_first(store, context.rank.rank, AFTER, lambda: _say_if_due(context, patience_s)) == "yes":
            engine.barrier()
            _measure(context, engine, "after")
    except Exception as error:  # noqa: BLE001  see above
        _complain(error)


def _say_if_due(context: RankContext, patience_s: float | None) -> str:
    """Yes or no, whatever happens: the other ranks wait for the word."""
    try:
        return "yes" if _is_due(context.record, context.attempt, patience_s) else "no"
    except Exception as error:  # noqa: BLE001  a full disk, a damaged plan
        _complain(error)
        return "no"


def _is_due(record: JobRecord, attempt: AttemptFolder, patience_s: float | None) -> bool:
    """Whether this member is the last of its lane, and its neighbours are still busy; decided by rank 0 alone."""
    _, plan = read_config_and_plan(record.folder)
    if record.job.member != max(job.member for job in plan.jobs if job.lane == record.job.lane):
        return False
    return patience_s is None or wait_for_neighbours(record.folder, record.job, attempt, plan, patience_s)


def _complain(error: Exception) -> None:
    sys.stderr.write(f"trainmark: no ceiling was measured after training: {type(error).__name__}: {error}\n")


def _measure(context: RankContext, engine: Engine, phase: Literal["before", "after"]) -> None:
    context.log.write(CeilingStart())
    context.log.write(Ceiling(phase=phase, **engine.measure_ceiling()))


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
