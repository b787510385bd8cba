"""What a study will do: points, runs, expected time and node-hours."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainmark.spec.errors import without_advice
from trainmark.spec.units import counted, show_duration
from trainmark.studies.outcomes import NO_RUNS
from trainmark.studies.record import PlannedPoint, StudyRecord
from trainmark.studies.study import flat

MAX_REFUSED = 3  # points that are named for one reason
LONGER = "--set train.minutes=… makes runs of a known length"


def preview_lines(record: StudyRecord) -> list[str]:
    """Returns a summary line, then one line per point; the first says how long it will take."""
    if record.parts:
        return [f"{name}: {why}" for name, why in record.refused_parts().items()]
    if not record.points:
        return [f"{record.study}: {NO_RUNS}"]
    refused = [planned for planned in record.points if planned.refused]
    runs, product = counted(len(record.runs), "run"), f"{points_text(record)} × {counted(record.repeats, 'repeat')}"
    counts = f"{runs}: {product} ({counted(len(refused), 'point')} cannot run)" if refused else f"{product} = {runs}"
    lines = [f"{record.study}: {counts}{_search_text(record)}; {expected_text(record)}"]
    for planned in record.points:
        if planned.refused is None:
            nodes = [counted(planned.nodes, "node")] if planned.nodes > 1 else []
            seconds = [f"{_range_text(planned.seconds)} per run"] if planned.seconds else []
            lines.append(": ".join([f"  {planned.point.label}", *filter(None, [", ".join([*nodes, *seconds])])]))
    return [*lines, *_refused_lines(refused)]


def _refused_lines(refused: Sequence[PlannedPoint]) -> Iterator[str]:
    """Yields why points cannot run: each on its own line, or many of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for planned in refused:
        reason = without_advice(planned.refused or "")
        # Reasons that differ in numbers alone are one reason; the first stands for all.
        by_reason.setdefault(re.sub(r"\d[\d,.]*", "#", reason), []).append(
            f"{planned.point.label}: cannot run: {reason}"
        )
    for lines in by_reason.values():
        few = lines if len(lines) <= MAX_REFUSED else lines[:1]
        yield from (f"  {line}" for line in few)
        if len(few) < len(lines):
            last = lines[-1].partition(": cannot run: ")[0]
            yield f"  and {counted(len(lines) - 1, 'point')} more like it, up to {last}"


def _search_text(record: StudyRecord) -> str:
    """`, then a search of at most 24 more`: as many as are left of those that may be added."""
    left = most_runs(record) - len(record.runs)
    return f", then a search of at most {left} more" if left > 0 else ""


def most_runs(record: StudyRecord) -> int:
    """Returns the most runs that the study may have in all."""
    return max(len(record.runs), record.num_at_start + record.most_more)


def preview_of_all(parts: Sequence[StudyRecord], whole: StudyRecord) -> list[str]:
    """Returns one line per study, those that cannot run, and the total."""
    runs = f"all: {len(parts)} studies, {counted(sum(len(part.runs) for part in parts), 'run')}"
    expected, hours = [expected_seconds(part) for part in parts], [expected_node_hours(part) for part in parts]
    if None in expected:
        time = f"how long they take is known after the first runs; {LONGER}"
    else:
        seconds, node_hours = (
            tuple(sum(each[end] for each in found if each) for end in (0, 1)) for found in (expected, hours)
        )
        time = f"{_range_text((seconds[0], seconds[1]))}, {_hours_text((node_hours[0], node_hours[1]))}"
    return [*(preview_lines(part)[0] for part in parts), *preview_lines(whole), f"{runs}; {time}"]


def points_text(record: StudyRecord) -> str:
    """`2 points`; `1 of 2 points` if the other cannot run."""
    can_run = sum(planned.refused is None for planned in record.points)
    text = counted(len(record.points), "point")
    return text if can_run == len(record.points) else f"{can_run} of {text}"


def expected_text(record: StudyRecord) -> str:
    """`3 min 00 s to 9 min 00 s, 0.05 to 0.15 node-hours`; the first points refine it; else what limits it."""
    expected, hours = expected_seconds(record), expected_node_hours(record)
    if expected is None or hours is None:
        most = max(record.points[run.point].nodes for run in record.runs)
        nodes = counted(most, "node") if most == 1 else f"up to {counted(most, 'node')}"
        return f"on {nodes}; {_limit_text(record)}"
    at_once = flat(record.base).get("launch.launcher") == "slurm"
    order = " one after another, less if Slurm starts several at once" if at_once and len(record.runs) > 1 else ""
    left = most_runs(record) - len(record.runs)
    longest = max((_end(record, run.point, 1) for run in record.runs), default=0.0)
    search = f" (with the search up to about {show_duration(expected[1] + left * longest)})" if left > 0 else ""
    return f"{_range_text(expected)}{order}{search}, {_hours_text(hours)}"


def _limit_text(record: StudyRecord) -> str:
    """What is known of runs of unknown speed: the time limit of their jobs."""
    limits = [(record.points[run.point].limit_seconds, record.points[run.point].nodes) for run in record.runs]
    if any(limit is None for limit, _ in limits):
        return f"how long they take is known after the first run; {LONGER}"
    seconds, hours = (
        sum((limit or 0.0) * times for limit, times in each) for each in ([(s, 1) for s, _ in limits], limits)
    )
    each = show_duration(max(limit or 0.0 for limit, _ in limits))
    return (
        f"by the time limit of their jobs ({each}) at most {show_duration(seconds)} one after another, "
        f"{_hours(hours / 3600)} node-hours; {LONGER}"
    )


def expected_seconds(record: StudyRecord) -> tuple[float, float] | None:
    """Returns the expected time of all runs, one after another; None if that of any is unknown."""
    return _expected(record, lambda planned: 1.0)


def expected_node_hours(record: StudyRecord) -> tuple[float, float] | None:
    """Returns the expected node-hours of all runs; None if those of any are unknown."""
    return _expected(record, lambda planned: planned.nodes / 3600)


def _expected(record: StudyRecord, factor: Callable[[PlannedPoint], float]) -> tuple[float, float] | None:
    if any(record.points[run.point].seconds is None for run in record.runs):
        return None
    low, high = (
        sum(factor(record.points[run.point]) * _end(record, run.point, end) for run in record.runs) for end in (0, 1)
    )
    return low, high


def _end(record: StudyRecord, point: int, end: int) -> float:
    seconds = record.points[point].seconds
    return seconds[end] if seconds else 0.0


def _range_text(seconds: tuple[float, float]) -> str:
    return f"{show_duration(seconds[0])} to {show_duration(seconds[1])}"


def _hours_text(hours: tuple[float, float]) -> str:
    return f"{_hours(hours[0])} to {_hours(hours[1])} node-hours"


def _hours(hours: float) -> str:
    return f"{hours:.2g}" if hours < 100 else f"{hours:,.0f}"


def preview_record(record: StudyRecord) -> dict[str, Any]:
    """Returns the record and the expected time as JSON."""
    return {
        **record.model_dump(mode="json", by_alias=True),
        "most_runs": most_runs(record),
        "expected_seconds": expected_seconds(record),
        "expected_node_hours": expected_node_hours(record),
    }
