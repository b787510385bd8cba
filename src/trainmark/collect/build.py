"""The Result of a run folder: made anew from its files whenever it is wanted, also of an unfinished run."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from trainmark.collect.measured import Measured, Member, read_measured
from trainmark.collect.member_state import Outlook
from trainmark.collect.warnings import find_warnings
from trainmark.machine.claims import is_being_worked_on
from trainmark.spec.config import RunConfig
from trainmark.spec.files import read_json
from trainmark.spec.plan import plan_as_json
from trainmark.spec.queue import QueueState
from trainmark.spec.registries import METRICS, QUALITIES
from trainmark.spec.result import MemberResult, Metric, Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.seeds import weights_seed
from trainmark.spec.stored_run import DAMAGE, damaged, read_stored

MEMBER_METRICS = ("throughput_samples_per_s", "step_time_s", "epoch_time_s", "flops", "peak_memory_bytes")


def build_result(folder: RunFolder, queue: Mapping[int, QueueState] | None = None) -> Result:
    """The Result as far as the run has come; `queue` is what a scheduler says of members' jobs, if it was asked."""
    config, plan, _ = read_stored(folder)
    quality = QUALITIES.load(config.quality)
    try:
        known = {} if queue is None and not config.launch.jobs_outlive_launcher else queue
        outlook = Outlook(is_being_worked_on(folder), known)
        measured = read_measured(folder, config, plan, quality, outlook)
        return _result_of(folder, measured)
    except DAMAGE as error:
        raise damaged(folder, error) from error


def _result_of(folder: RunFolder, measured: Measured) -> Result:
    origin = read_json(folder.origin)
    metrics = {name: METRICS.load(name)(measured) for name in METRICS}
    return Result(
        run_id=folder.run_id,
        state=_state_of(measured),
        started_at=origin["started_at"],
        workload=measured.config.workload,
        size=measured.config.size,
        config=measured.config.model_dump(exclude_none=True),
        plan=plan_as_json(measured.plan),
        machine=origin["machine"],
        software={**origin["software"], **_software_of_ranks(measured)},
        engine=_engine(measured),
        metrics=metrics,
        members=[_member_result(measured, member) for member in measured.members],
        warnings=find_warnings(measured, metrics, read_json(folder.bootstrap_audit), origin.get("data", {})),
        provenance={
            **origin["provenance"],
            "dataset_fingerprint": _fingerprint(measured),
            "data": origin.get("data", {}),
        },
    )


def _state_of(measured: Measured) -> Literal["complete", "partial", "failed", "unfinished"]:
    states = {member.state for member in measured.members}
    if states == {"finished"}:
        return "complete"
    if states & {"running", "queued", "waiting", "stopped"}:
        return "unfinished"
    return "partial" if "finished" in states else "failed"


def _member_result(measured: Measured, member: Member) -> MemberResult:
    alone = Measured(measured.config, measured.plan, measured.quality, (member,))
    metrics: dict[str, Metric] = {name: METRICS.load(name)(alone) for name in MEMBER_METRICS} if alone.finished else {}
    return MemberResult(
        member=member.job.member,
        state=member.state,
        attempts=member.attempts,
        seed=weights_seed(measured.config.seed, member.job.member),
        quality=member.quality(),
        epochs_done=max((event["epoch"] + 1 for event in member.all_of("epoch_stop")), default=0),
        restarted=member.was_restarted,
        exit=member.exit,
        reason=member.reason,
        metrics=metrics,
    )


def _software_of_ranks(measured: Measured) -> dict[str, Any]:
    """What the ranks themselves said: torch's own version, instruction set, allocator and thread settings."""
    for member in measured.members:
        if started := member.one("rank_started"):
            names = ("torch", "torch_isa", "device", "environment", "allocator")
            return {name: started.get(name) for name in names}
    return {}


def _engine(measured: Measured) -> dict[str, Any]:
    """Which options of the training engine were on, as the first member's rank 0 said."""
    for member in measured.members:
        if ready := member.one("engine_ready"):
            return {name: value for name, value in ready.items() if name not in ("kind", "wall_s", "monotonic_s")}
    return {}


def _fingerprint(measured: Measured) -> str | None:
    for member in measured.members:
        if ready := member.one("data_ready"):
            return str(ready["fingerprint"])
    return None


def config_hash(config: RunConfig) -> str:
    """A short checksum of all choices: equal for runs that chose the same."""
    text = json.dumps(config.model_dump(exclude_none=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
