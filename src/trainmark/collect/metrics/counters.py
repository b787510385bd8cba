"""Hardware counters of training: instructions per megapixel and per cycle, misses of the last-level cache."""

from typing import NamedTuple

from trainmark.collect.measured import NO_MEMBER, Measured
from trainmark.collect.metrics.pixels import pixels_of_members
from trainmark.spec.machine_events import Counters
from trainmark.spec.metrics import Figure, MetricRow


class _Counted(NamedTuple):
    """Counters summed over all ranks of all members."""

    ranks: int
    instructions: int
    cycles: int
    cache_misses: int


def _counters(measured: Measured, *needed: str) -> _Counted | str:
    """Returns the sums of the counters; of one that is not needed and missing, 0; or why a needed one is missing."""
    if not measured.finished:
        return NO_MEMBER
    ranks = sum(len(member.job.ranks) for member in measured.finished)
    found = [event for member in measured.finished for event in member.of_all_ranks(Counters)]
    if reasons := [event.reason for event in found if event.reason]:
        return reasons[0]
    if len(found) < ranks:
        return "hardware counters were not recorded"
    for name in needed:
        if any(getattr(event, name) is None for event in found):
            return f"the processor did not count {name.replace('_', ' ')}"
    sums = [sum(getattr(event, name) or 0 for event in found) for name in ("instructions", "cycles", "cache_misses")]
    return _Counted(ranks, *sums)


def _instructions(measured: Measured) -> Figure | str:
    found, pixels = _counters(measured, "instructions"), pixels_of_members(measured)
    if isinstance(found, str) or isinstance(pixels, str):
        return found if isinstance(found, str) else str(pixels)
    total, informative = (float(sum(getattr(each, part).sum() for each in pixels)) for part in ("total", "informative"))
    detail = {"per_informative_megapixel": found.instructions / informative, "instructions": found.instructions}
    return Figure(found.instructions / total, n=found.ranks, detail=detail)


INSTRUCTIONS = MetricRow(
    "instructions_per_megapixel",
    "instructions/MP",
    "lower",
    "instructions per megapixel",
    description="Instructions in user space of all workers while they train, per megapixel, padding included.",
    compute=_instructions,
    hide_if_unavailable=True,
)


def _per_cycle(measured: Measured) -> Figure | str:
    found = _counters(measured, "instructions", "cycles")
    return found if isinstance(found, str) else Figure(found.instructions / found.cycles, n=found.ranks)


PER_CYCLE = MetricRow(
    "instructions_per_cycle",
    "",
    "higher",
    "instructions per cycle (IPC)",
    description="Instructions in user space per cycle of the cores, of all workers while they train.",
    compute=_per_cycle,
    hide_if_unavailable=True,
)


def _cache_misses(measured: Measured) -> Figure | str:
    found = _counters(measured, "instructions", "cache_misses")
    return found if isinstance(found, str) else Figure(1000 * found.cache_misses / found.instructions, n=found.ranks)


CACHE_MISSES = MetricRow(
    "cache_misses_per_1000_instructions",
    "",
    "lower",
    "LLC misses per 1000 instructions (MPKI)",
    description="Misses of the last-level cache per 1000 instructions, of all workers while they train.",
    compute=_cache_misses,
    hide_if_unavailable=True,
)
