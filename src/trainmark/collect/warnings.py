"""What a reader of a Result must know before believing it."""

from typing import Any

from trainmark.collect.measured import Measured
from trainmark.collect.steady_state import FEWEST_STEPS
from trainmark.spec.plan import plan_figures
from trainmark.spec.plan_text import advise_on_idle
from trainmark.spec.result import Metric

MOST_OF_OTHERS = 0.1  # of the time of a member's cores; below it lie the system's own tasks and the kernel's ticks


def find_warnings(
    measured: Measured, metrics: dict[str, Metric], audit: dict[str, Any], data: dict[str, Any]
) -> list[str]:
    """One line each, with the next step where there is one; `data` is what was known of them when the run began."""
    return [
        *_other_data(measured, data),
        *_failed_members(measured),
        *_restarted(measured),
        *_synthetic(measured),
        *_affinity(measured),
        *_allocator(measured),
        *_unsettled(measured),
        *_oversubscribed(measured),
        *_shared_cores(measured),
        *_fingerprints(measured),
        *_unlike_places(measured),
        *_not_staged(measured, metrics),
        *_above_ceiling(metrics),
        *_others_on_cores(metrics),
        *_bootstrap(audit),
        *_idle(measured),
        *_lanes_not_side_by_side(measured),
    ]


def _other_data(measured: Measured, data: dict[str, Any]) -> list[str]:
    unlike = data.get("unlike_the_size", [])
    if not unlike or measured.is_synthetic:  # of which there is a warning, and no quality
        return []
    config = measured.config
    return [
        f"NOT the data of {config.workload} in size {config.size}: {'; '.join(unlike)}. Quality and VFLOPS cannot be "
        "compared with its target, nor with other runs of that size."
    ]


def _failed_members(measured: Measured) -> list[str]:
    return [
        f"member {member.job.member} {member.state}: {member.reason}"
        for member in measured.members
        if member.state in ("failed", "stopped")
    ]


def _restarted(measured: Measured) -> list[str]:
    return [
        f"member {member.job.member} was restarted from a checkpoint: its figures cover only epochs "
        f"{member.epochs[0].epoch + 1} to {member.epochs[-1].epoch + 1} of {measured.config.train.epochs}, which "
        f"attempt {member.attempts} trained"
        for member in measured.finished
        if member.was_restarted
    ]


def _synthetic(measured: Measured) -> list[str]:
    return (
        ["data were synthetic, made once on the device: throughput only, no quality"] if measured.is_synthetic else []
    )


def _affinity(measured: Measured) -> list[str]:
    found = []
    for member in measured.members:
        for rank in member.job.ranks:
            started = member.one("rank_started", rank.rank)
            if started and not started["affinity"]["verified"]:
                told = started["affinity"]
                found.append(
                    f"member {member.job.member} rank {rank.rank} should run {told['threads_asked']} thread(s) on "
                    f"cores {told['cores_asked']}, but runs {told['threads_running']} on {told['cores_allowed']}"
                )
    return found


def _allocator(measured: Measured) -> list[str]:
    wanted = measured.config.launch.allocator
    asked = wanted if wanted in ("tcmalloc", "jemalloc") else "glibc"
    used = {started.get("allocator", asked) for m in measured.members for started in m.of_all_ranks("rank_started")}
    return [f"ranks should run with {asked}, but ran with {', '.join(sorted(used))}"] if used - {asked} else []


def _unsettled(measured: Measured) -> list[str]:
    unsettled = [member for member in measured.finished if not member.steady.settled]
    short = [str(member.job.member) for member in unsettled if len(member.step_s) < FEWEST_STEPS]
    drifting = [str(member.job.member) for member in unsettled if len(member.step_s) >= FEWEST_STEPS]
    found = []
    if short:
        found.append(
            f"members {', '.join(short)} made fewer than {FEWEST_STEPS} steps, too few to tell warm-up from steady "
            "state. Train longer (--set train.epochs=…)."
        )
    if drifting:
        found.append(
            f"step times of members {', '.join(drifting)} never settled; throughput is a mean over a drifting run. "
            "Train longer (--set train.epochs=…) or on a quieter machine."
        )
    return found


def _oversubscribed(measured: Measured) -> list[str]:
    threads = measured.config.launch.threads
    fewest = min(len(rank.cores) for job in measured.plan.first_jobs for rank in job.ranks)
    if threads is None or threads <= fewest:
        return []
    return [f"{threads} threads a worker share {fewest} core(s); choose --set launch.threads={fewest} or fewer"]


def _shared_cores(measured: Measured) -> list[str]:
    used = [(rank.node, core) for job in measured.plan.first_jobs for rank in job.ranks for core in rank.cores]
    if len(used) == len(set(used)):
        return []
    return [f"{len(used)} cores were given to workers, but they are {len(set(used))}: the speeds are those of a trial"]


def _fingerprints(measured: Measured) -> list[str]:
    seen = {event["fingerprint"] for member in measured.members if (event := member.one("data_ready"))}
    return [f"members trained on different data: fingerprints {', '.join(sorted(seen))}"] if len(seen) > 1 else []


def _not_staged(measured: Measured, metrics: dict[str, Metric]) -> list[str]:
    metric = metrics["staging_time_s"]
    in_vain = measured.config.launch.stage != "none" and measured.finished and metric.value is None
    return [f"launch.stage is {measured.config.launch.stage}, but {metric.reason}"] if in_vain else []


def _above_ceiling(metrics: dict[str, Metric]) -> list[str]:
    share = metrics["flops_share_of_ceiling"].value
    if share is None or share <= 1:
        return []
    return [f"training ran at {share:.0%} of the measured ceiling; one of the two figures is wrong, please report it"]


def _others_on_cores(metrics: dict[str, Metric]) -> list[str]:
    nodes = (metrics["cpu_utilisation"].detail or {}).get("nodes", [])
    others = {node["member"]: node["utilisation"] - node["own"] for node in nodes if node["own"] is not None}
    disturbed = [str(member) for member, share in others.items() if share > MOST_OF_OTHERS]
    if not disturbed:
        return []
    return [
        f"other processes took up to {max(others.values()):.0%} of the time of the cores of members "
        f"{', '.join(disturbed)}. Measure on a quieter machine, or give members cores of their own."
    ]


def _bootstrap(audit: dict[str, Any]) -> list[str]:
    return [
        f"the bootstrap of member {entry['member']} holds {entry['present_share']:.1%} of the samples, "
        f"not the expected {entry['expected_share']:.1%}"
        for entry in audit["members"]
        if not entry["as_expected"]
    ]


def _idle(measured: Measured) -> list[str]:
    advice = advise_on_idle(plan_figures(measured.plan))
    return [] if advice is None else [advice]


def _lanes_not_side_by_side(measured: Measured) -> list[str]:
    if not measured.finished or measured.concurrency > 0.9 * measured.plan.lanes:
        return []
    return [
        f"on average {measured.concurrency:.2f} of {measured.plan.lanes} lanes trained at the same time; FLOPS and the "
        "share of the ceiling count the idle ones. Members should be a multiple of the lanes, and start together."
    ]


def _unlike_places(measured: Measured) -> list[str]:
    """Members that ran with other software or on other hardware, say after a resume elsewhere."""
    found = []
    for name in ("device", "torch", "torch_isa", "environment", "allocator"):
        seen = {str(event.get(name)) for member in measured.finished if (event := member.one("rank_started"))}
        if len(seen) > 1:
            found.append(f"members ran with different {name}: {' | '.join(sorted(seen))}")
    return found
