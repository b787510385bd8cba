"""A Plan and its estimate as text."""

from collections.abc import Iterator

from rich.table import Table

from trainmark.spec.config import RunConfig
from trainmark.spec.layout import global_batch
from trainmark.spec.length import length_setting
from trainmark.spec.plan import Plan, describe_scale, describe_slots
from trainmark.spec.status import STEPS_FOR_SPEED, Estimate, Range, Spread
from trainmark.spec.units import counted, show_bytes, show_cores

MAX_ROWS = 20
LESS_MEMORY = (
    "Choose --set train.torch.recompute=true, --set train.torch.offload=disk, --set train.parallel=model with more "
    "workers, or smaller images."
)


def plan_line(plan: Plan) -> str:
    """Returns Eq. 5 with the plan's figures, and its use of the site."""
    at_a_time = f"{counted(plan.lanes, 'member')} at a time, {counted(plan.waves, 'wave')}"
    return f"{describe_scale(plan)}; {at_a_time}; site {plan.site}: {describe_slots(plan)}"


def plan_table(plan: Plan) -> Table:
    """Returns each member's nodes and cores."""
    table = Table("member", "rank", "node", "cores", "accelerator", box=None)
    rows = 0
    for job in plan.jobs:
        for rank in job.ranks:
            if rows == MAX_ROWS:
                table.add_row("…", "", "", "", "")
                return table
            device = "" if rank.accelerator is None else str(rank.accelerator)
            table.add_row(str(job.member), str(rank.rank), rank.node, show_cores(rank.cores), device)
            rows += 1
    return table


LONG_S = 3600.0
UNITS = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def estimate_lines(estimate: Estimate, config: RunConfig, plan: Plan) -> Iterator[str]:
    """Yields time and memory as ranges, and advice if a run takes long or does not fit."""
    yield f"estimated time: {_time(estimate)}"
    yield f"estimated memory: {_memory(estimate, estimate.worker_bytes) if estimate.worker_bytes else 'unknown'}"
    if estimate.seconds is not None and estimate.seconds[1] > LONG_S:
        yield f"! This may take longer than an hour. {_smaller(config, plan)}"
    if warning := _does_not_fit(estimate):
        bounded = "" if estimate.too_large is None else ", or --set train.batching=pixels"
        yield f"! {warning} Choose a smaller --set train.batch_size{bounded}."
    if estimate.too_large:
        yield f"! {estimate.too_large}. {LESS_MEMORY}"


def _time(estimate: Estimate) -> str:
    if estimate.seconds is None:
        return f"unknown until the first steps ({estimate.basis})"
    return f"{show_range(estimate.seconds)} ({estimate.basis})"


def _memory(estimate: Estimate, worker_bytes: Spread) -> str:
    least, expected, most = (f"{float(f'{each / 2**30:.2g}'):g}" for each in worker_bytes)
    workers = counted(estimate.workers_at_a_time, "worker")
    available = "" if estimate.available_bytes is None else f"; {show_bytes(estimate.available_bytes)} available"
    return f"about {expected} GiB ({least}–{most}) per worker, {workers} at a time{available}"


def _smaller(config: RunConfig, plan: Plan) -> str:
    """Returns settings that train just enough steps to measure speed."""
    few = STEPS_FOR_SPEED * global_batch(config.train, plan.workers_per_member)
    data = " --set dataset=synthetic" if "path" in config.data else ""
    data += " --set train.augmentation=none" if data and config.train.augmentation != "none" else ""
    length = "epochs=1" if length_setting(config.train) == "train.epochs" else f"steps={STEPS_FOR_SPEED}"
    settings = f"--members {plan.lanes} --set train.{length}{data} --set data.num_train={few}"
    without = "" if config.train.minutes is None else ", without train.minutes"
    return f"To measure speed only, {STEPS_FOR_SPEED} steps suffice: {settings}{without}."


def _does_not_fit(estimate: Estimate) -> str | None:
    if estimate.worker_bytes is None:
        return None
    if estimate.limit_bytes is not None and estimate.worker_bytes.expected > estimate.limit_bytes:
        needed, limit = show_bytes(estimate.worker_bytes.expected), show_bytes(estimate.limit_bytes)
        return f"A worker is expected to need {needed}, more than its limit of {limit}."
    if estimate.available_bytes is None:
        return None
    least, _, most = (each * estimate.workers_at_a_time for each in estimate.worker_bytes)
    if most <= estimate.available_bytes:
        return None
    return "The workers will run out of memory." if least > estimate.available_bytes else "Memory may not suffice."


def show_range(seconds: Range) -> str:
    """`about 9–20 h`: two digits, in the unit that fits the larger end."""
    size, unit = next((size, unit) for size, unit in UNITS if seconds[1] >= 2 * size or size == 1.0)
    least, most = (f"{float(f'{each / size:.2g}'):g}" for each in seconds)
    return f"about {least} {unit}" if least == most else f"about {least}–{most} {unit}"
