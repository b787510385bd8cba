"""Events: what each rank measured, one JSON object a line, and how to read them back."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from trainmark.spec.event_fields import is_event

Event = dict[str, Any]

KINDS = {
    "rank_started": "the process is up: host, pid, cores, threads, software",
    "staging_start": "copying of the member's samples to the node's own storage begins (MLPerf HPC's staging_start)",
    "staging_stop": "the samples are there: how many, bytes, time, copied now or found (MLPerf HPC's staging_stop)",
    "data_ready": "the dataset is open: its name, the bootstrap's draws, the fingerprint",
    "model_ready": "the model is built: parameters, FLOPs by operator and convention",
    "engine_ready": "which options of the training engine are on, and what the arithmetic really is",
    "start_wait": "the rank is set up and waits at the start barrier for the other members",
    "ceiling_start": "measuring of the ceiling begins",
    "ceiling": "what this rank's cores can do, before or after training: FLOP/s of each kernel, load by others",
    "checkpoint_damaged": "a checkpoint of an earlier attempt is damaged on some ranks, so the one before it is tried",
    "resumed": "training goes on from a checkpoint of an earlier attempt",
    "run_start": "training begins (MLPerf's run_start)",
    "epoch_start": "an epoch begins",
    "steps": "a block of steps: durations, waits for data, losses",
    "epoch_stop": "an epoch ended: samples, time, time spent in the harness",
    "evaluation": "quality on held-out samples",
    "checkpoint": "a checkpoint was written",
    "run_stop": "training and its last evaluation ended (MLPerf's run_stop)",
    "memory": "the peak of the rank's memory",
    "usage_start": "sampling of a node's utilisation begins: what is watched there, and what cannot be",
    "usage": "what a member used of a node since the sample before: cores, memory, network, accelerators",
    "failed": "the rank ends with an error: message and traceback",
    "finished": "the rank ends well",
}


class EventFile(NamedTuple):
    """A whole file of events, and the numbers of its lines, from 1, that hold none."""

    events: tuple[Event, ...]
    damaged_lines: tuple[int, ...]


def read_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """The whole events from byte `offset` on, and the offset to go on from; a half-written last line waits.

    Lines that hold no event, say torn by a crash, are skipped: the lines around them still count.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except OSError:  # not there yet, or not to be read now
        return [], offset
    whole, newline, _ = data.rpartition(b"\n")
    events = [event for line in whole.split(b"\n") if (event := _parse(line)) is not None]
    return events, offset + len(whole) + len(newline)


def read_event_file(path: Path, *, is_over: bool) -> EventFile:
    """All events of a file; a half-written last line is damaged if the writing is over. Raises OSError."""
    lines = path.read_bytes().split(b"\n")
    parsed = [_parse(line) for line in (lines if is_over else lines[:-1])]
    damaged = tuple(n for n, (line, event) in enumerate(zip(lines, parsed, strict=False), 1) if line and event is None)
    return EventFile(tuple(event for event in parsed if event is not None), damaged)


def _parse(line: bytes) -> Event | None:
    if not line:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if is_event(value) else None
