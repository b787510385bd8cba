"""What a study will do: points, runs, expected time and node-hours."""

from collections.abc import Sequence
from typing import Any

from trainmark.spec.errors import without_advice
from trainmark.spec.units import counted, show_duration
from trainmark.studies.outcomes import NO_RUNS
from trainmark.studies.record import StudyRecord
from trainmark.studies.study import flat


def preview_lines(record: StudyRecord) -> list[str]:
    """Returns a summary line, then one line per point; the first says how long it will take."""
    if record.parts:
        return [f"{name}: {why}" for name, why in record.refused_parts().items()]
    if not record.points:
        return [f"{record.study}: {NO_RUNS}"]
    refused = [planned for planned in record.points if planned.refused]
    runs, product = counted(len(record.runs), "run"), f"{points_text(record)} × {counted(record.repeats, 'repeat')}"
    counts = f"{runs}: {product} ({counted(len(refused), 'point')} cannot run)" if refused else f"{product} = {runs}"
    lines = [f"{record.study}: {counts}; {expected_text(record)}"]
    for planned in record.points:
        nodes = [counted(planned.nodes, "node")] if planned.nodes > 1 else []
        seconds = [f"{_range_text(planned.seconds)} per run"] if planned.seconds else []
        cannot = f"cannot run: {without_advice(planned.refused)}" if planned.refused else None
        what = [cannot or ", ".join([*nodes, *seconds])]
        lines.append(": ".join([f"  {planned.point.label}", *filter(None, what)]))
    return lines


def preview_of_all(parts: Sequence[StudyRecord], whole: StudyRecord) -> list[str]:
    """Returns one line per study, those that cannot run, and the total."""
    expected = [expected_seconds(part) for part in parts]
    runs = f"all: {len(parts)} studies, {counted(sum(len(part.runs) for part in parts), 'run')}"
    low, high = (sum(each[end] for each in expected if each) for end in (0, 1))
    time = "how long they take is known after the first runs" if None in expected else _range_text((low, high))
    return [*(preview_lines(part)[0] for part in parts), *preview_lines(whole), f"{runs}; {time}"]


def points_text(record: StudyRecord) -> str:
    """`2 points`; `1 of 2 points` if the other cannot run."""
    can_run = sum(planned.refused is None for planned in record.points)
    text = counted(len(record.points), "point")
    return text if can_run == len(record.points) else f"{can_run} of {text}"


def expected_text(record: StudyRecord) -> str:
    """`about 3 to 9 min, 0.1 node-hours`; the first points refine it."""
    expected = expected_seconds(record)
    if expected is None:
        most = max(record.points[run.point].nodes for run in record.runs)
        nodes = counted(most, "node") if most == 1 else f"up to {counted(most, 'node')}"
        return f"on {nodes}; how long they take is known after the first run"
    low, high = expected
    hours = [
        sum(record.points[run.point].nodes * _end(record, run.point, end) for run in record.runs) / 3600
        for end in (0, 1)
    ]
    at_once = flat(record.base).get("launch.launcher") == "slurm"
    order = " one after another, less if Slurm starts several at once" if at_once and len(record.runs) > 1 else ""
    return f"{show_duration(low)} to {show_duration(high)}{order}, {hours[0]:.2g} to {hours[1]:.2g} node-hours"


def expected_seconds(record: StudyRecord) -> tuple[float, float] | None:
    """Returns the expected time of all runs, one after another; None if that of any is unknown."""
    if any(record.points[run.point].seconds is None for run in record.runs):
        return None
    low, high = (sum(_end(record, run.point, end) for run in record.runs) for end in (0, 1))
    return low, high


def _end(record: StudyRecord, point: int, end: int) -> float:
    seconds = record.points[point].seconds
    return seconds[end] if seconds else 0.0


def _range_text(seconds: tuple[float, float]) -> str:
    return f"{show_duration(seconds[0])} to {show_duration(seconds[1])}"


def preview_record(record: StudyRecord) -> dict[str, Any]:
    """Returns the record and the expected time as JSON."""
    return {**record.model_dump(mode="json", by_alias=True), "expected_seconds": expected_seconds(record)}
