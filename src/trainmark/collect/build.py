"""The Result of a run folder, rebuilt from its files on demand, also of an unfinished run."""

from typing import Any, Literal

from trainmark.collect.compute import compute_metrics
from trainmark.collect.measured import Measured, Member
from trainmark.collect.reading import read_measured
from trainmark.collect.warnings import find_warnings
from trainmark.machine.claims import has_live_claim
from trainmark.spec.events import DataReady, EngineReady, EpochStop, RankStarted
from trainmark.spec.files import read_record
from trainmark.spec.layout import global_batch, layout_of, samples_per_replica
from trainmark.spec.member_state import FINAL_STATES, RunActivity
from trainmark.spec.metrics import metric_rows
from trainmark.spec.model_events import ModelReady
from trainmark.spec.registries import METRICS, QUALITIES
from trainmark.spec.result import MemberResult, Metric, Result
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.seeds import weights_seed
from trainmark.spec.status import QueueAnswer
from trainmark.spec.stored_run import find_edits, read_config_and_plan

ORIGIN = {"started_at": str, "machine": dict, "software": dict, "provenance": dict}
AUDIT = {"members": list}


def build_result(folder: RunFolder, answer: QueueAnswer | None = None) -> Result:
    """Builds the Result of a run, finished or not, from the files in its folder.

    `answer` has the scheduler's states of the members' jobs, if it was queried.
    """
    unreachable = [f"Slurm is unreachable ({answer.error}): states are from files"] if answer and answer.error else []
    return _result_of(folder, read_run(folder, answer), unreachable)


def read_run(folder: RunFolder, answer: QueueAnswer | None = None) -> Measured:
    """Reads the events of a run; predictions and utilisation series are loaded when they are needed."""
    config, plan = read_config_and_plan(folder)
    quality = QUALITIES.load(config.quality)
    jobs = answer.jobs if answer is not None else None if config.launch.jobs_outlive_launcher else {}
    return read_measured(folder, config, plan, quality, RunActivity(has_live_claim(folder), jobs))


def _result_of(folder: RunFolder, measured: Measured, unreachable: list[str]) -> Result:
    metrics = compute_metrics(measured, METRICS)
    of_each = [name for name, row in metric_rows().items() if row.per_member]
    origin, audit, damage = _records(folder, measured)
    return Result(
        run_id=folder.run_id,
        state=_state_of(measured),
        started_at=str(origin.get("started_at", "unknown")),
        workload=measured.config.workload,
        size=measured.config.size,
        config=measured.config,
        plan=measured.plan,
        training=_training(measured, metrics),
        machine=_part(origin, "machine"),
        software={**_part(origin, "software"), **_software_of_ranks(measured)},
        engine=_engine(measured),
        metrics=metrics,
        members=[_member_result(measured, member, of_each) for member in measured.members],
        warnings=[
            *damage,
            *unreachable,
            *(f"changed since the run started: {edit}" for edit in find_edits(folder)),
            *find_warnings(measured, metrics, audit, _part(origin, "data")),
        ],
        damage=damage,
        provenance={
            **_part(origin, "provenance"),
            "dataset_fingerprint": _fingerprint(measured),
            "data": _part(origin, "data"),
        },
    )


def _records(folder: RunFolder, measured: Measured) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Returns the run's origin, the audit of its bootstraps, and one line per missing or damaged file."""
    origin, problem = read_record(folder.origin, folder.name_of(folder.origin), ORIGIN)
    damage = [f"{problem}: machine, software or start time of the run are unknown"] if problem else []
    audit, problem = read_record(folder.bootstrap_audit, folder.name_of(folder.bootstrap_audit), AUDIT)
    damage += [f"{problem}: the bootstraps could not be checked"] if problem else []
    for member in measured.finished:
        problems = [*member.problems]
        if not measured.why_no_quality and member.predictions_problem:
            problems.append(member.predictions_problem)
        damage += [f"member {member.job.member} finished, but {problem}" for problem in problems]
    return origin or {}, audit or {}, damage


def _part(record: dict[str, Any], name: str) -> dict[str, Any]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _training(measured: Measured, metrics: dict[str, Metric]) -> dict[str, Any]:
    """What each member trains."""
    train, plan = measured.config.train, measured.plan
    return {
        "model": measured.config.model,
        "precision": train.precision,
        "batch_per_replica": samples_per_replica(train),
        "workers_per_replica": layout_of(train, plan.workers_per_member).stages,
        "global_batch": global_batch(train, plan.workers_per_member),
        "training_flop_per_sample": _flop_per_sample(measured, metrics),
    }


def _flop_per_sample(measured: Measured, metrics: dict[str, Metric]) -> dict[str, float] | None:
    """Returns FLOP by convention, as the metric `flops` has them, else the model's own."""
    if (flops := metrics["flops"].detail) is not None:
        return dict(flops["training_flop_per_sample"])
    for member in measured.members:
        if ready := member.one(ModelReady):
            return {name: count.training for name, count in ready.conventions.items()}
    return None


def _state_of(measured: Measured) -> Literal["complete", "partial", "failed", "unfinished"]:
    states = {member.state for member in measured.members}
    if states == {"finished"}:
        return "complete"
    if not states <= FINAL_STATES:
        return "unfinished"
    return "partial" if "finished" in states else "failed"


def _member_result(measured: Measured, member: Member, names: list[str]) -> MemberResult:
    alone = Measured(measured.config, measured.plan, measured.quality, (member,))
    counts = member.state == "finished" or (not alone.is_over and len(member.step_s) > 0)
    return MemberResult(
        member=member.job.member,
        state=member.state,
        attempts=member.attempts,
        seed=weights_seed(measured.config.seed, member.job.member),
        quality=member.quality(),
        epochs_done=_epochs_done(measured, member),
        restarted=member.was_restarted,
        exit=member.exit,
        reason=member.reason or "; ".join(member.problems) or None,
        metrics=compute_metrics(alone, names) if counts else {},
    )


def _epochs_done(measured: Measured, member: Member) -> int | float:
    done = max((event.epochs_done for event in member.all_of(EpochStop)), default=0.0)
    if not member.is_whole:  # what its completion record says; those of earlier versions are of whole trainings
        done = member.final_epochs or measured.config.train.epochs
    return int(done) if done == int(done) else round(done, 3)


def _software_of_ranks(measured: Measured) -> dict[str, Any]:
    """Returns what ranks recorded: their Python, packages, the engine's build, allocator and thread settings."""
    for member in measured.members:
        if started := member.one(RankStarted):
            return started.of_software()
    return {}


def _engine(measured: Measured) -> dict[str, Any]:
    """Returns the engine's options, as recorded by the first member's rank 0."""
    for member in measured.members:
        if ready := member.one(EngineReady):
            return ready.options()
    return {}


def _fingerprint(measured: Measured) -> str | None:
    for member in measured.members:
        if ready := member.one(DataReady):
            return ready.fingerprint
    return None
