"""Estimates the time and memory of a run, as ranges, before anything is measured."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import psutil

from trainmark.data.batching import Shapes
from trainmark.machine.topology import instruction_sets
from trainmark.plan.pass_sizes import PassSizes, pass_sizes
from trainmark.spec.config import RunConfig
from trainmark.spec.layout import SPLITTING, global_batch
from trainmark.spec.length import MIN_STEPS_OF_MINUTES, total_steps
from trainmark.spec.plan import Plan
from trainmark.spec.registries import DATASETS
from trainmark.spec.site import Site
from trainmark.spec.status import Estimate, Range, Spread, StoredSpeed
from trainmark.spec.units import with_prefix
from trainmark.spec.workload import DataFacts
from trainmark.workloads.cost import Cost, cost_of
from trainmark.workloads.memory import bytes_of_samples, held_by, live_bytes, model_bytes, samples_over

SHARES_OF_CEILING = (0.12, 0.50)  # small models reach 17 %, ResNet-50 up to 47 %
AROUND_MEASURED = (0.7, 1.3)  # spread around a stored measurement of the same model, on a shared machine

# FLOP/s per core in fp32, below matrix-multiply peak: 2 or 1 FMA units × vector width × 2 × about 2.5 GHz.
CEILINGS = {"avx512f": 150e9, "avx2": 75e9, "sve": 40e9, "asimd": 25e9}
SLOWEST_CEILING = 5e9

START_S = (4.0, 15.0)  # per wave: loading torch and data, ceiling
COMPILING_S = {"inductor": (10.0, 90.0)}  # the first steps of each wave; the shorter time with a warm cache
INFERENCE = 2.4  # measure.inference_seconds: two batch sizes, each with a fifth of warm-up
PROCESS_BYTES = Spread(0.25 * 2**30, 0.31 * 2**30, 0.55 * 2**30)  # Python and torch
EVALUATED = 0.15  # of a sample's activations are live in inference
UNEVEN = 1.15  # the largest of a model's stages over their mean
OUT_OF_BAG = 0.37
SAMPLE_BYTES = Spread(1.0, 4.0, 5.0)  # per value of in-memory data: as bytes, as float, as both


class Speed(NamedTuple):
    """Peak throughput per core, the fraction that models reach, and the basis of both."""

    ceiling_flops: float
    shares: Range
    basis: str


def estimate_run(
    config: RunConfig,
    plan: Plan,
    site: Site,
    facts: DataFacts,
    stored: StoredSpeed | None,
    shapes: Shapes | None = None,
    names: Sequence[str] = (),
) -> Estimate:
    """Estimates a run from the speed of a stored run, else an assumed one; unknown for accelerators.

    `shapes` are the heights and widths of the training samples, if they differ and are known, `names` their files.
    """
    sizes = None if shapes is None else pass_sizes(config, shapes)
    found = replace(_estimate(config, plan, site, facts, stored, sizes), limit_bytes=_limit_bytes(config, site))
    return found if shapes is None else replace(found, too_large=_too_large(config, site, found, shapes, names))


def _estimate(
    config: RunConfig, plan: Plan, site: Site, facts: DataFacts, stored: StoredSpeed | None, sizes: PassSizes | None
) -> Estimate:
    cost = cost_of(config.model, config.model_settings, facts.sample_shape)
    if cost is not None and sizes is not None:
        cost = cost.scaled(sizes.mean_sample_px / math.prod((facts.sample_shape or ())[1:]))
    is_here = site.num_nodes == 1 and config.launch.launcher != "slurm"
    available = psutil.virtual_memory().available if is_here else None
    if cost is None:
        basis = f"the cost of {config.model} with these settings and data is not tabulated"
        return _of_unknown_speed(config, plan, None, basis, available)
    worker_bytes = _worker_bytes(config, site, facts, cost, sizes)
    if site.has_accelerators or not is_here:
        what = "accelerators is not tabulated" if site.has_accelerators else "the site's nodes is not known here"
        return _of_unknown_speed(config, plan, worker_bytes, f"the speed of {what}", None)
    speed = measured_speed(stored) if stored else assumed_speed(instruction_sets())
    seconds = _seconds(config, plan, facts, cost, speed)
    return Estimate(seconds, worker_bytes, speed.basis, plan.workers_at_a_time, available)


def _num_parts(config: RunConfig) -> float:
    """Among how many workers a model is split; the largest part is somewhat larger than the others."""
    train = config.train
    stages = (train.stages or config.ensemble.workers) if train.parallel in SPLITTING else 1
    return stages / UNEVEN if stages > 1 else 1.0


def _limit_bytes(config: RunConfig, site: Site) -> float | None:
    """The memory that a worker may take, if that is stated."""
    stated = [config.launch.memory_gib, *(group.memory_gib_per_slot for group in site.groups)]
    return min((each * 2**30 for each in stated if each), default=None)


def _too_large(config: RunConfig, site: Site, found: Estimate, shapes: Shapes, names: Sequence[str]) -> str:
    """Says which samples need more memory than a worker has, each alone; empty if all fit, or nothing is known."""
    limits = [] if found.limit_bytes is None else [found.limit_bytes]
    if found.available_bytes is not None:
        limits.append(found.available_bytes / found.workers_at_a_time)
    allocator = None if site.has_accelerators else config.launch.allocator
    parts = _num_parts(config)
    needed = bytes_of_samples(config.model, config.model_settings, shapes, config.train, allocator, parts)
    if needed is None or not limits:
        return ""
    over = samples_over(min(limits), needed + (0 if site.has_accelerators else PROCESS_BYTES.expected))
    return over.text(names) if over.indices else ""


def _of_unknown_speed(
    config: RunConfig, plan: Plan, worker_bytes: Spread | None, basis: str, available: int | None
) -> Estimate:
    """Returns the estimate of a run whose speed is unknown: its time is known if its training is set in minutes."""
    if config.train.minutes is None:
        return Estimate(None, worker_bytes, basis, plan.workers_at_a_time, available)
    least, most = (plan.waves * (start_s + 60 * config.train.minutes) for start_s in START_S)
    basis = f"without evaluations: {basis}"
    return Estimate((least, most), worker_bytes, basis, plan.workers_at_a_time, available)


def assumed_speed(known_instructions: list[str]) -> Speed:
    """Returns the speed assumed for the widest vector instructions of a CPU."""
    name = next((name for name in CEILINGS if name in known_instructions), None)
    ceiling = CEILINGS[name] if name else SLOWEST_CEILING
    of_what = f"{with_prefix(ceiling, 'FLOP/s')} per core ({name or 'no vector instructions known'})"
    return Speed(ceiling, SHARES_OF_CEILING, f"assuming {_percent(SHARES_OF_CEILING)} of {of_what}")


def measured_speed(stored: StoredSpeed) -> Speed:
    """Returns the speed measured by a stored run: of this model, or at least the ceiling."""
    ceiling = f"{with_prefix(stored.ceiling_flops, 'FLOP/s')} per core, measured by run {stored.run_id}"
    if stored.share is None:
        return Speed(stored.ceiling_flops, SHARES_OF_CEILING, f"assuming {_percent(SHARES_OF_CEILING)} of {ceiling}")
    shares = (stored.share * AROUND_MEASURED[0], stored.share * AROUND_MEASURED[1])
    return Speed(stored.ceiling_flops, shares, f"this model reached {stored.share:.0%} of {ceiling}")


def _percent(shares: Range) -> str:
    return f"{100 * shares[0]:.0f}–{100 * shares[1]:.0f} %"


def _seconds(config: RunConfig, plan: Plan, facts: DataFacts, cost: Cost, speed: Speed) -> Range:
    cores = sum(len(rank.cores) for rank in plan.jobs[0].ranks)
    rates = [cores * speed.ceiling_flops * share / (cost.gflop * 1e9) for share in speed.shares]  # samples per second
    least, most = sorted(_member_seconds(config, plan, facts, rate) for rate in rates)
    compiling = COMPILING_S.get(config.train.torch.compiler, (0.0, 0.0))
    return plan.waves * (START_S[0] + compiling[0] + least), plan.waves * (START_S[1] + compiling[1] + most)


def _member_seconds(config: RunConfig, plan: Plan, facts: DataFacts, samples_per_s: float) -> float:
    """The time of a member's training and predictions at this speed."""
    train, num_train = config.train, facts.num_train or 0
    batch = global_batch(train, plan.workers_per_member)
    per_epoch = max(1, num_train // batch)
    total = total_steps(train, per_epoch)
    if total is None:
        total = max(MIN_STEPS_OF_MINUTES, math.ceil(60 * (train.minutes or 0.0) * samples_per_s / batch))
    evaluations = math.ceil(total / per_epoch / config.evaluate.every_epochs)
    held_out = _num_evaluated(config, facts)
    predicted = held_out * (evaluations + 1)
    if config.evaluate.out_of_bag and config.ensemble.bootstrap != "none" and held_out:
        predicted += round(OUT_OF_BAG * num_train)
    # A forward pass is a third of a training pass.
    after = INFERENCE * config.measure.inference_seconds * config.measure.inference
    return (total * batch + predicted / 3) / samples_per_s + after


def _num_evaluated(config: RunConfig, facts: DataFacts) -> int:
    held_out, limit = facts.num_eval or 0, config.evaluate.samples
    return held_out if limit is None else min(limit, held_out)


def _worker_bytes(config: RunConfig, site: Site, facts: DataFacts, cost: Cost, sizes: PassSizes | None) -> Spread:
    train = config.train
    stages = _num_parts(config)
    weights = model_bytes(cost.parameters, train) / stages
    # In samples: of the largest pass, and of evaluation, whose batches are of one shape.
    passes = Spread(*3 * [float(train.batch_size)])
    evaluated = float(min(config.evaluate.batch_size, _num_evaluated(config, facts)))
    if sizes is not None:
        least, most = (each / sizes.mean_sample_px for each in sizes.largest_px)
        passes, evaluated = Spread(least, least, most), min(1.0, evaluated)
    live = [
        max(live_bytes(cost, train) * each / stages, EVALUATED * cost.activation_bytes * evaluated) for each in passes
    ]
    held = held_by(None if site.has_accelerators else config.launch.allocator, train)
    values = ((facts.num_train or 0) + (facts.num_eval or 0)) * math.prod(facts.sample_shape or ())
    kind = DATASETS.load(config.dataset)
    is_held = not hasattr(kind, "make") and not getattr(kind, "is_synthetic", False)  # in memory, by each worker
    ends = zip(PROCESS_BYTES, held, live, SAMPLE_BYTES, strict=True)
    return Spread(
        *(process + weights + share * each + of_value * values * is_held for process, share, each, of_value in ends)
    )
