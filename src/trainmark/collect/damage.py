"""What is missing or damaged in a run's folder, in words that name the file."""

from pathlib import Path

from trainmark.spec.event_files import first_of, name_of, read_event_file
from trainmark.spec.events import (
    DataReady,
    EpochStart,
    EpochStop,
    Event,
    ModelReady,
    RankStarted,
    RunStart,
    RunStop,
    Steps,
)
from trainmark.spec.files import one_line
from trainmark.spec.machine_events import Memory
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.units import counted

OF_EVERY_RANK = (RankStarted, RunStart, RunStop, Memory)
OF_RANK_0 = (DataReady, ModelReady, EpochStart, Steps, EpochStop)
MOST_LINES_NAMED = 3

Problem = str | None


def read_rank(folder: RunFolder, path: Path, *, is_over: bool) -> tuple[tuple[Event, ...], Problem]:
    """A rank's events, and which lines of the file hold none; `is_over` says that nothing more is written to it."""
    name = folder.name_of(path)
    try:
        events, damaged = read_event_file(path, is_over=is_over)
    except FileNotFoundError:
        return (), f"{name} is missing"
    except OSError as error:
        return (), f"{name} cannot be read: {one_line(error)}"
    if not damaged:
        return events, None
    named = ", ".join(map(str, damaged[:MOST_LINES_NAMED])) + (", …" if len(damaged) > MOST_LINES_NAMED else "")
    return events, f"{name} has {counted(len(damaged), 'damaged line')} (number {named})"


def gap_in(events: tuple[Event, ...], rank: int, epochs: int) -> Problem:
    """What is missing among the events of a rank that was trained to the end; None where nothing is."""
    expected: tuple[type[Event], ...] = OF_EVERY_RANK if rank else (*OF_EVERY_RANK, *OF_RANK_0)
    if missing := [name_of(kind) for kind in expected if first_of(kind, events) is None]:
        return f"holds no {', '.join(missing)}"
    step: int | None = None
    for event in events:
        if isinstance(event, EpochStart):
            step = event.step if step is None else step
        elif isinstance(event, Steps):
            if step is not None and event.first_step < step:
                return f"repeats steps from {event.first_step} on"
            if step is not None and event.first_step > step:
                return f"lacks steps {step} to {event.first_step - 1}"
            step = event.first_step + len(event.step_s)
        elif isinstance(event, EpochStop) and step is not None and event.next_step != step:
            return f"lacks steps {step} to {event.next_step - 1}"
    started = {event.epoch for event in events if isinstance(event, EpochStart)}
    ended = {event.epoch for event in events if isinstance(event, EpochStop)}
    if started != ended or (ended and max(ended) + 1 != epochs):
        return f"lacks the beginning or the end of an epoch of {epochs}"
    return None
