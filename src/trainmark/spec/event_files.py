"""Reads event files, one JSON object per line, tolerating torn lines and events of other versions."""

import json
from collections.abc import Iterable
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from trainmark.spec import events, machine_events, model_events
from trainmark.spec.events import Event
from trainmark.spec.files import read_regular

E = TypeVar("E", bound=Event)


def name_of(kind: type[Event]) -> str:
    """Returns the value of `kind` in the event's JSON."""
    return str(kind.model_fields["kind"].default)


# In the order of the docs.
KINDS: dict[str, type[Event]] = {
    name_of(kind): kind
    for kind in (
        events.RankStarted,
        machine_events.StagingStart,
        machine_events.StagingStop,
        events.DataReady,
        model_events.ModelReady,
        events.EngineReady,
        events.StartWait,
        machine_events.CeilingStart,
        machine_events.Ceiling,
        events.CheckpointDamaged,
        events.Resumed,
        events.RunStart,
        events.EpochStart,
        events.Steps,
        events.EpochStop,
        events.Evaluation,
        events.Checkpoint,
        events.RunStop,
        machine_events.Memory,
        machine_events.StepMemory,
        machine_events.Counters,
        machine_events.InferenceStart,
        machine_events.Inference,
        machine_events.UsageStart,
        machine_events.Usage,
        events.Failed,
        events.Finished,
    )
}


class EventFile(NamedTuple):
    """All events of a file, and the numbers (from 1) of its damaged lines."""

    events: tuple[Event, ...]
    damaged_lines: tuple[int, ...]


class DamagedLineError(ValueError):
    """A line that is not a valid event."""


def read_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """Returns the complete events from byte `offset` on and the next offset; a partial last line is left for later.

    Damaged lines, such as those torn by a crash, are skipped.
    """
    try:
        data = read_regular(path, offset)
    except OSError:  # missing so far, or temporarily unreadable
        return [], offset
    whole, newline, _ = data.rpartition(b"\n")
    return list(_read_lines(whole.split(b"\n")).events), offset + len(whole) + len(newline)


def read_event_file(path: Path, *, is_over: bool) -> EventFile:
    """Reads a whole file; a partial last line counts as damaged once writing is over. Raises OSError."""
    lines = read_regular(path).split(b"\n")
    return _read_lines(lines if is_over else lines[:-1])


def _read_lines(lines: Iterable[bytes]) -> EventFile:
    found, damaged = [], []
    for number, line in enumerate(lines, 1):
        try:
            event = parse_event(line) if line else None
        except DamagedLineError:
            damaged.append(number)
            continue
        if event is not None:
            found.append(event)
    return EventFile(tuple(found), tuple(damaged))


def parse_event(line: bytes | str) -> Event | None:
    """Returns the event of a line, or None for a kind of a later version. Raises DamagedLineError."""
    try:
        event = _lines().validate_json(line, extra="ignore")  # fields that later versions have added
    except ValidationError as error:
        if _is_of_unknown_kind(line):
            return None
        raise DamagedLineError(str(error)) from error
    if "wall_s" not in event.model_fields_set:
        raise DamagedLineError("no wall_s")
    return event


def _is_of_unknown_kind(line: bytes | str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    kind = value.get("kind") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind not in KINDS


@cache
def _lines() -> TypeAdapter[Event]:
    """A discriminated union: `kind` selects the type before the other fields are validated."""
    any_kind: Any = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind")]
    return TypeAdapter(any_kind)


def first_of(kind: type[E], of_rank: Iterable[Event]) -> E | None:
    """Returns the first event of a kind, or None."""
    return next((event for event in of_rank if isinstance(event, kind)), None)
