"""Speed of the trained models in inference mode: samples per second in batches, latency of single samples."""

from collections import defaultdict
from typing import Any

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured, Member
from trainmark.collect.statistics import (
    Samples,
    batches_of_steps,
    median_interval,
    quantile_interval,
    summary,
    union_length,
)
from trainmark.spec.machine_events import Inference
from trainmark.spec.metrics import Figure, MetricRow
from trainmark.spec.units import counted

BLOCKS = 10  # of consecutive passes, whose times are correlated
FEWEST_FOR_P99 = 100  # so that at least one pass is slower
SIDE_BY_SIDE = 0.9  # of the lanes; below, the figure is said to be of less load

Passes = list[tuple[Member, list[Inference]]]  # of each member, by rank


def _read(measured: Measured, batch_size: int) -> Passes | str:
    """Returns the finished members' measurements at one batch size, or why there are none."""
    if not measured.config.measure.inference:
        return "not measured: measure.inference is false"
    if not measured.finished:
        return NO_MEMBER
    found: Passes = []
    for member in measured.finished:
        of_ranks = []
        for rank in member.job.ranks:
            events = [each for each in member.all_of(Inference, rank.rank) if each.batch_size == batch_size]
            if not events:
                return f"not measured by member {member.job.member} rank {rank.rank}"
            if events[-1].reason is not None:
                return events[-1].reason
            of_ranks.append(events[-1])
        found.append((member, of_ranks))
    return found


def _throughput(measured: Measured) -> Figure | str:
    batch_size = measured.config.measure.inference_batch_size or measured.config.train.batch_size
    found = _read(measured, batch_size)
    if isinstance(found, str):
        return found
    blocks = min(BLOCKS, *(len(event.latency_s) for _, events in found for event in events))
    # Members of one lane take turns on the same cores: their mean counts. Lanes and ranks add up.
    lanes: dict[int, list[Samples]] = defaultdict(list)
    for member, events in found:
        lanes[member.job.lane].append(np.sum([_rates(event, blocks) for event in events], axis=0))
    rates = np.sum([np.mean(of_lane, axis=0) for of_lane in lanes.values()], axis=0)
    of_members = np.array([np.median(of_member) for of_lane in lanes.values() for of_member in of_lane])
    return Figure(
        value=float(np.median(rates)),
        ci95=median_interval(rates),
        n=len(rates),
        detail={"batch_size": batch_size, "per_member": summary(of_members), **_load(found, len(lanes))},
    )


def _rates(event: Inference, blocks: int) -> Samples:
    """Returns samples per second in each block of consecutive passes."""
    split = batches_of_steps(np.array(event.latency_s), blocks)
    return np.array([event.batch_size * len(block) / block.sum() for block in split])


def _load(found: Passes, lanes: int) -> dict[str, Any]:
    """Returns how many members measured at a time, with a note if some had less company than in training."""
    spans = [(events[0].wall_s - events[0].over_s, events[0].wall_s) for _, events in found]
    at_a_time = sum(end - start for start, end in spans) / union_length(spans)
    load: dict[str, Any] = {"members_at_a_time": at_a_time, "lanes": lanes}
    if at_a_time < SIDE_BY_SIDE * lanes:
        load["note"] = f"on average {at_a_time:.2f} of {counted(lanes, 'lane')} measured at a time"
    return load


THROUGHPUT = MetricRow(
    "inference_samples_per_s",
    "samples/s",
    "higher",
    "inference throughput",
    description="Samples per second that the trained models predict in batches, all members and ranks together.",
    compute=_throughput,
    needs="finished members",
    hide_if_unavailable=True,
)


def _p50(measured: Measured) -> Figure | str:
    found = _read(measured, 1)
    if isinstance(found, str):
        return found
    samples = _pooled(found)
    of_ranks = [np.array(event.latency_s) for _, events in found for event in events]
    medians = np.array([np.median(block) for each in of_ranks for block in batches_of_steps(each, BLOCKS)])
    return Figure(float(np.median(samples)), median_interval(medians), len(medians), _detail(found, samples))


def _p99(measured: Measured) -> Figure | str:
    found = _read(measured, 1)
    if isinstance(found, str):
        return found
    samples = _pooled(found)
    if len(samples) < FEWEST_FOR_P99:
        return (
            f"{counted(len(samples), 'forward pass')} are too few for a 99th percentile, "
            f"which needs {FEWEST_FOR_P99}. Choose a larger --set measure.inference_seconds=…"
        )
    value = float(np.quantile(samples, 0.99))
    return Figure(value, quantile_interval(samples, 0.99), len(samples), _detail(found, samples))


def _pooled(found: Passes) -> Samples:
    return np.array([latency_s for _, events in found for event in events for latency_s in event.latency_s])


def _detail(found: Passes, samples: Samples) -> dict[str, Any]:
    """Returns the spread of the latencies, and how many passes they stand for."""
    passes = sum(event.passes for _, events in found for event in events)
    return {"batch_size": 1, **summary(samples), "latencies": len(samples), "passes": passes}


LATENCY_P50 = MetricRow(
    "inference_latency_p50_s",
    "s",
    "lower",
    "inference latency (median)",
    description="The median time from one sample in memory to its prediction, over all members and ranks.",
    compute=_p50,
    needs="finished members",
    hide_if_unavailable=True,
)


LATENCY_P99 = MetricRow(
    "inference_latency_p99_s",
    "s",
    "lower",
    "inference latency (p99)",
    description="The time within which 99 % of single samples are predicted, over all members and ranks.",
    compute=_p99,
    needs="finished members",
    hide_if_unavailable=True,
)
