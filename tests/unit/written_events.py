"""Events written out by hand, from which metrics' known answers follow by arithmetic."""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.planned import planned_config
from tests.run_events import as_event, changed
from trainmark.collect.measured import Measured, Member, NodeUsage
from trainmark.spec.events import EpochStop, Steps
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.status import MemberState
from trainmark.workloads.quality.top1 import Top1

BATCH = 10
STEPS = 40


def written_member(
    member: int,
    start_s: float = 100.0,
    step_s: float = 0.1,
    state: MemberState = "finished",
    quality: float = 0.8,
    lane: int | None = None,
    attempts: int = 1,
    ceiling: float = 50_000.0,
    predictions: dict[str, Any] | None = None,
) -> Member:
    """A member of one worker: one epoch of 40 steps of `step_s`, 10 samples each; 100 FLOP a sample."""
    epoch_s = STEPS * step_s
    events: tuple[dict[str, Any], ...] = (
        {"kind": "rank_started"},
        {"kind": "data_ready"},
        {
            "kind": "model_ready",
            "conventions": {
                "exact": {"training": 100.0, "operators": {"matrix product": 100.0}},
                "ai500": {"training": 90.0, "operators": {"fully connected": 90.0}},
            },
        },
        {"kind": "ceiling", "flops": ceiling, "kernel": "torch.mm 1024"},
        {"kind": "run_start", "wall_s": start_s - 1, "epoch": 0},
        {"kind": "epoch_start", "wall_s": start_s, "epoch": 0},
        {"kind": "steps", "step_s": [step_s] * STEPS, "wait_s": [step_s / 5] * STEPS, "loss": [1.0] * STEPS},
        {"kind": "epoch_stop", "epoch": 0, "epoch_s": epoch_s, "samples": STEPS * BATCH, "harness_s": epoch_s / 100},
        {"kind": "evaluation", "quality": quality},
        {"kind": "run_stop", "wall_s": start_s + epoch_s + 1},
        {"kind": "memory", "wall_s": start_s + epoch_s + 2, "resident_bytes": 1000 + member, "device_bytes": None},
    )
    place = Rank(0, "node1", 0, (member,), None)
    return Member(
        job=Job(member, member if lane is None else lane, (place,)),
        attempts=attempts,
        state=state,
        reason=None if state == "finished" else "a reason",
        exit=None,
        events=(tuple(as_event(**{"wall_s": start_s - 5, **event}) for event in events),),
        load_predictions=lambda: predictions or written_predictions(),
    )


def written_pair(member: int, *facts: dict[str, Any]) -> Member:
    """A member of two workers like `written_member`; `facts` are what each measured of their communication."""
    alone = written_member(member)
    (events,) = alone.events
    of_ranks = tuple(
        tuple(changed(event, **told) if isinstance(event, EpochStop) else event for event in events) for told in facts
    )
    ranks = tuple(Rank(rank, "node1", rank, (rank,), None) for rank in range(len(facts)))
    return replace(alone, job=Job(member, member, ranks), events=of_ranks)


def with_facts(member: Member, facts: dict[str, dict[str, Any]]) -> Member:
    """The member, with other fields in the events of rank 0, by their kind."""
    events = tuple(changed(event, **facts.get(event.kind, {})) for event in member.events[0])
    return replace(member, events=(events,))


def with_staging(member: Member, *stops: dict[str, Any]) -> Member:
    """The member, with what the first rank of each of its nodes staged before the training."""
    known = {"kind": "staging_stop", "wall_s": 90.0, "of_samples": 100, "replaced": None, "folder": "/local/pack"}
    events = tuple((*of_rank, as_event(**known, **stop)) for of_rank, stop in zip(member.events, stops, strict=True))
    return replace(member, events=events)


def with_inference(member: Member, *latencies: dict[int, list[float]], end_s: float = 130.0) -> Member:
    """The member, with what each of its ranks measured after training: latencies by batch size, until `end_s`."""
    events = tuple(
        (
            *of_rank,
            *(
                as_event(
                    kind="inference",
                    wall_s=end_s,
                    batch_size=batch_size,
                    latency_s=latency_s,
                    passes=len(latency_s),
                    over_s=sum(latency_s),
                    warmup_passes=3,
                )
                for batch_size, latency_s in measured.items()
            ),
        )
        for of_rank, measured in zip(member.events, latencies, strict=True)
    )
    return replace(member, events=events)


def with_counters(member: Member, **counters: Any) -> Member:
    """The member, with the hardware counters of its one rank."""
    facts = counters or {"instructions": 6_000_000, "cycles": 4_000_000, "cache_misses": 12_000}
    return replace(member, events=((*member.events[0], as_event(kind="counters", **facts)),))


def with_step_memory(member: Member, *peaks: list[int], reason: str | None = None) -> Member:
    """The member, with the peak memory of each step of each of its ranks."""
    largest = {"largest_bytes": max(map(max, peaks)) + 1} if peaks else {}
    told = as_event(kind="step_memory", where="host", reason=reason, **largest)
    of_ranks = (
        [changed(event, memory_bytes=found) if isinstance(event, Steps) else event for event in events]
        for events, found in zip(member.events, peaks or [[]] * len(member.events), strict=True)
    )
    return replace(member, events=tuple((*events, told) for events in of_ranks))


def written_sample(wall_s: float, busy: float = 0.5, over_s: float = 1.0, **fields: Any) -> Usage:
    """What was used in the `over_s` before `wall_s`: the system a tenth, I/O and the hypervisor 1 % each."""
    cpu = {"user": busy - 0.1, "system": 0.1, "iowait": 0.01, "steal": 0.01}
    facts = {
        "wall_s": wall_s,
        "over_s": over_s,
        "cpu": cpu,
        "node_cpu": cpu,
        "processes": {"cpu_s": 0.25 * over_s, "resident_bytes": 1000, "processes": 1},
        "network": {"eth0": {"received": 3000, "sent": 1000}, "ib0/1": {"received": 0, "sent": 6000}},
        "loopback_bytes": 500,
    }
    return Usage.model_validate({**facts, **fields})


def with_usage(member: Member, *samples: Usage, cores: str = "0", **start: Any) -> Member:
    """The member with a series of one node."""
    facts = UsageStart.model_validate({"interfaces": ["eth0", "ib0/1"], "accelerators": [], **start, "cores": cores})
    usage = NodeUsage("node1", 0, "events/0000/attempt-1/usage-0.jsonl", facts, samples)
    return replace(member, load_usage=lambda: (usage,))


def written_predictions() -> dict[str, Any]:
    """Two held-out samples, both predicted right; two out-of-bag samples, one of them right."""
    return {
        "eval_predictions": np.array([[0.9, 0.1], [0.2, 0.8]], np.float32),
        "eval_labels": np.array([0, 1]),
        "oob_indices": np.array([4, 7]),
        "oob_predictions": np.array([[0.9, 0.1], [0.9, 0.1]], np.float32),
        "oob_labels": np.array([0, 1]),
    }


def written_run(*members: Member, **changes: Any) -> Measured:
    """A run of these members with batch 10, target 0.8, n = 5."""
    values: dict[str, Any] = {
        "train": {"batch_size": BATCH, "epochs": 1},
        "evaluate": {"target_quality": 0.8, "exponent": 5},
    }
    for section, settings in changes.items():
        values[section] = {**values.get(section, {}), **settings}
    lanes = len({member.job.lane for member in members})
    workers = len(members[0].job.ranks)
    values["ensemble"] = {"members": len(members), "workers": workers, **values.get("ensemble", {})}
    config = planned_config(**values)
    scale = len(members) * workers
    plan = Plan(
        len(members), workers, scale, "test", lanes, lanes * workers, None, 0, tuple(member.job for member in members)
    )
    return Measured(config, plan, Top1, members)
