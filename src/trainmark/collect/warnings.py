"""Warnings on a Result: what may make its figures wrong or incomparable."""

from collections.abc import Callable
from typing import Any

from trainmark.collect.measured import Measured, Member
from trainmark.collect.metrics.ceiling import cores_in_use
from trainmark.collect.speed_warnings import (
    above_ceiling,
    disturbed_ceiling,
    name_members,
    others_on_cores,
    warm_up_in_flops,
)
from trainmark.collect.statistics import FEWEST_STEPS
from trainmark.machine.instructions import ISA_BELOW_AMX
from trainmark.spec.events import Affinity, CheckpointDamaged, DataReady, RankStarted, Resumed
from trainmark.spec.files import one_line
from trainmark.spec.length import length_setting
from trainmark.spec.model_card import BLOCK_CHANNELS
from trainmark.spec.plan import advise_on_idle
from trainmark.spec.result import Metric
from trainmark.spec.units import counted
from trainmark.workloads.find import find_card


def find_warnings(
    measured: Measured, metrics: dict[str, Metric], audit: dict[str, Any], data: dict[str, Any]
) -> list[str]:
    """Returns one line each, with what to do if possible; `data` describes the data when the run started."""
    checks: dict[str, Callable[[], list[str]]] = {
        "the data": lambda: _unexpected_data(measured, data),
        "skipped samples": lambda: _skipped(measured, data),
        "evaluated samples": lambda: _few_evaluated(measured, data),
        "failed members": lambda: _failed_members(measured),
        "damaged events": lambda: _torn_events(measured),
        "restarted members": lambda: _restarted(measured),
        "checkpoints": lambda: _damaged_checkpoints(measured),
        "synthetic data": lambda: _synthetic(measured),
        "the memory format": lambda: _layout(measured),
        "AMX": lambda: _without_amx(measured),
        "affinity": lambda: _affinity(measured),
        "the allocator": lambda: _allocator(measured),
        "steady state": lambda: _no_steady_state(measured),
        "threads": lambda: _oversubscribed(measured),
        "shared cores": lambda: _shared_cores(measured),
        "fingerprints of the data": lambda: _fingerprints(measured),
        "the members' places": lambda: _different_environments(measured),
        "staging": lambda: _not_staged(measured, metrics),
        "warm-up": lambda: warm_up_in_flops(measured, metrics),
        "the ceiling": lambda: above_ceiling(metrics),
        "load during the ceiling": lambda: disturbed_ceiling(measured),
        "other processes": lambda: others_on_cores(metrics),
        "the bootstraps": lambda: _bootstrap(audit),
        "idle slots": lambda: _idle(measured),
        "lanes side by side": lambda: _idle_lanes(measured),
    }
    return [line for what, check in checks.items() for line in _checked(what, check)]


def _checked(what: str, check: Callable[[], list[str]]) -> list[str]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  a failing check affects neither others nor the Result
        return [f"{what} could not be checked: {one_line(error)}"]


def _unexpected_data(measured: Measured, data: dict[str, Any]) -> list[str]:
    unlike = data.get("unlike_the_size", [])
    if not unlike or measured.is_synthetic:  # has its own warning, and no quality
        return []
    config = measured.config
    return [
        f"NOT the data of {config.workload} in size {config.size}: {'; '.join(unlike)}. Quality and VFLOPS cannot be "
        "compared with its target, nor with other runs of that size."
    ]


def _skipped(measured: Measured, data: dict[str, Any]) -> list[str]:
    """Warns of samples that were left out, with the list that names them."""
    left_out = data.get("num_skipped", 0)
    return [f"{counted(left_out, 'sample')} left out by data.skip={measured.config.data['skip']}"] if left_out else []


def _few_evaluated(measured: Measured, data: dict[str, Any]) -> list[str]:
    """Warns of a quality that is not that of all held-out samples."""
    limit, held_out = measured.config.evaluate.samples, data.get("num_eval") or 0
    if not limit or limit >= held_out:
        return []
    return [f"quality is that of {limit:,} of {counted(held_out, 'held-out sample')}: evaluate.samples is {limit}"]


def _failed_members(measured: Measured) -> list[str]:
    return [
        f"member {member.job.member} {member.state}: {member.reason}"
        for member in measured.members
        if member.state in ("failed", "stopped")
    ]


def _layout(measured: Measured) -> list[str]:
    config = measured.config
    narrow = find_card(config.model).narrow_channels(config.model_settings)
    on_cpu = all(rank.accelerator is None for job in measured.plan.first_jobs for rank in job.ranks)
    if not narrow or not on_cpu or config.train.torch.memory_format != "contiguous":
        return []
    return [
        f"memory format contiguous: {config.model} has a strided 1×1 convolution of {counted(narrow, 'channel')}, "
        f"whose gradient oneDNN computes wrongly in channels-last below {BLOCK_CHANNELS}"
    ]


def _without_amx(measured: Measured) -> list[str]:
    limited = [
        member
        for member in measured.members
        if (started := member.one(RankStarted))
        and (started.environment or {}).get("ONEDNN_MAX_CPU_ISA") == ISA_BELOW_AMX
    ]
    if not limited or measured.config.train.precision not in ("bf16-mixed", "int8"):
        return []
    return [
        f"{measured.config.train.precision} ran without AMX (ONEDNN_MAX_CPU_ISA={ISA_BELOW_AMX}): it is broken where a "
        "hypervisor hides the sizes of AMX tiles (CPUID leaf 1Dh). Ask for a CPU model that passes on that leaf."
    ]


def _whole(measured: Measured) -> list[Member]:
    """Returns the finished members with all their events."""
    return [member for member in measured.finished if member.is_whole]


def _torn_events(measured: Measured) -> list[str]:
    """Warns of event lines torn by a crash or full disk; finished members that lack events are listed elsewhere."""
    of_ranks = [problem for member in measured.members if member.state != "finished" for problem in member.problems]
    of_nodes = [usage.problem for member in measured.members for usage in member.usage if usage.problem]
    return [f"{problem}: damaged lines are left out" for problem in (*of_ranks, *of_nodes)]


def _restarted(measured: Measured) -> list[str]:
    return [
        f"member {member.job.member} was restarted from a checkpoint: its figures cover only epochs "
        f"{member.epochs[0].epoch + 1} to {member.epochs[-1].epoch + 1}{_of_all(measured)}, which "
        f"attempt {member.attempts} trained"
        for member in _whole(measured)
        if member.was_restarted
    ]


def _of_all(measured: Measured) -> str:
    """` of 6`: the epochs of a whole training, if its length is in epochs."""
    train = measured.config.train
    return f" of {train.epochs}" if length_setting(train) == "train.epochs" else ""


def _damaged_checkpoints(measured: Measured) -> list[str]:
    found = []
    for member in measured.members:
        if damaged := [event.checkpoint for event in member.all_of(CheckpointDamaged)]:
            resumed = member.one(Resumed)
            instead = f"resumed from {resumed.checkpoint}" if resumed else "restarted from scratch"
            found.append(
                f"member {member.job.member} {instead}: {', '.join(damaged)} damaged on disk. Check the storage of "
                "the run."
            )
    return found


def _synthetic(measured: Measured) -> list[str]:
    return (
        ["synthetic data, generated once on the device: throughput only, no quality"] if measured.is_synthetic else []
    )


def _affinity(measured: Measured) -> list[str]:
    found = []
    for member in measured.members:
        for rank in member.job.ranks:
            started = member.one(RankStarted, rank.rank)
            if started and not started.affinity.verified:
                found.append(f"member {member.job.member} rank {rank.rank} {_unlike_asked(started.affinity)}")
    return found


def _unlike_asked(affinity: Affinity) -> str:
    asked, running = counted(affinity.threads_asked, "thread"), str(affinity.threads_running)
    if affinity.interop_threads_asked is not None:
        asked += f" and {counted(affinity.interop_threads_asked, 'inter-op thread')}"
        running += f" and {affinity.interop_threads_running}"
    return f"should run {asked} on cores {affinity.cores_asked}, but runs {running} on {affinity.cores_allowed}"


def _allocator(measured: Measured) -> list[str]:
    wanted = measured.config.launch.allocator
    asked = wanted if wanted in ("tcmalloc", "jemalloc") else "glibc"
    used = {started.allocator or asked for m in measured.members for started in m.of_all_ranks(RankStarted)}
    return [f"ranks should run with {asked}, but ran with {', '.join(sorted(used))}"] if used - {asked} else []


def _no_steady_state(measured: Measured) -> list[str]:
    unsettled = [member for member in _whole(measured) if not member.steady.settled]
    short = [str(member.job.member) for member in unsettled if len(member.step_s) < FEWEST_STEPS]
    drifting = [str(member.job.member) for member in unsettled if len(member.step_s) >= FEWEST_STEPS]
    longer = f"Train longer (--set {length_setting(measured.config.train)}=…)"
    found = []
    if short:
        found.append(
            f"{name_members(short)} made fewer than {FEWEST_STEPS} steps, too few to separate warm-up from steady "
            f"state. {longer}."
        )
    if drifting:
        found.append(
            f"step times of {name_members(drifting)} never settled; throughput is a mean over a drifting run. "
            f"{longer} or on a quieter machine."
        )
    return found


def _oversubscribed(measured: Measured) -> list[str]:
    threads = measured.config.launch.threads
    fewest = min(len(rank.cores) for job in measured.plan.first_jobs for rank in job.ranks)
    if threads is None or threads <= fewest:
        return []
    return [
        f"oversubscribed cores: {counted(threads, 'thread')} per worker on {counted(fewest, 'core')}. "
        f"Choose --set launch.threads={fewest} or fewer."
    ]


def _shared_cores(measured: Measured) -> list[str]:
    used = cores_in_use(measured.plan)
    if len(used) == len(set(used)):
        return []
    return [f"oversubscribed cores: workers use {len(used)}, but there are {len(set(used))}; speeds are not comparable"]


def _fingerprints(measured: Measured) -> list[str]:
    seen = {event.fingerprint for member in measured.members if (event := member.one(DataReady))}
    return [f"members trained on different data: fingerprints {', '.join(sorted(seen))}"] if len(seen) > 1 else []


def _not_staged(measured: Measured, metrics: dict[str, Metric]) -> list[str]:
    metric = metrics["staging_time_s"]
    is_missing = measured.config.launch.stage != "none" and measured.finished and metric.value is None
    return [f"launch.stage is {measured.config.launch.stage}, but {metric.reason}"] if is_missing else []


def _bootstrap(audit: dict[str, Any]) -> list[str]:
    return [
        f"the bootstrap of member {entry['member']} holds {entry['present_share']:.1%} of the samples, "
        f"not the expected {entry['expected_share']:.1%}"
        for entry in audit.get("members", [])
        if not entry["as_expected"]
    ]


def _idle(measured: Measured) -> list[str]:
    advice = advise_on_idle(measured.plan)
    return [] if advice is None else [advice]


def _idle_lanes(measured: Measured) -> list[str]:
    is_known = measured.is_over and len(_whole(measured)) == len(measured.finished) > 0
    if not is_known or measured.concurrency > 0.9 * measured.plan.lanes:
        return []
    return [
        f"on average {measured.concurrency:.2f} of {measured.plan.lanes} lanes trained concurrently; FLOPS and the "
        "share of the ceiling include idle lanes. Choose a multiple of the lanes as the number of members."
    ]


def _different_environments(measured: Measured) -> list[str]:
    """Warns of members that ran with different software or hardware, for example after a resume elsewhere."""
    found = []
    started = [event.of_software() for member in measured.finished if (event := member.one(RankStarted))]
    for name in ("device", "python", "numpy", "torch", "torch_git", "torch_isa", "environment", "allocator"):
        seen = {str(of_rank[name]) for of_rank in started if name in of_rank}  # earlier versions recorded less
        if len(seen) > 1:
            found.append(f"members ran with different {name}: {' | '.join(sorted(seen))}")
    return found
