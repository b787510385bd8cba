"""Reading and writing events in tests."""

import json
from pathlib import Path
from typing import Any

from trainmark.spec.event_files import parse_event
from trainmark.spec.events import Event


def events_of(run_dir: Path, member: int = 0, attempt: int = 1, rank: int = 0) -> list[dict[str, Any]]:
    """Returns the events of one rank of a stored run."""
    path = run_dir / "events" / f"{member:04d}" / f"attempt-{attempt}" / f"rank-{rank}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(run_dir: Path, member: int = 0, attempt: int = 1, rank: int = 0) -> list[float]:
    """Returns the loss of every step of one rank."""
    return [
        loss
        for event in events_of(run_dir, member, attempt, rank)
        if event["kind"] == "steps"
        for loss in event["loss"]
    ]


AFFINITY = {"cores_asked": "0", "cores_allowed": "0", "threads_asked": 1, "threads_running": 1, "verified": True}
# Required fields by event kind, unless a test sets them.
NEEDED: dict[str, dict[str, Any]] = {
    "rank_started": {"affinity": AFFINITY},
    "data_ready": {"draws": 400, "fingerprint": "abc"},
    "model_ready": {"model": "two-layers"},
    "steps": {"first_step": 0, "wait_s": [], "loss": []},
    "epoch_stop": {"next_step": 0, "samples": 0, "harness_s": 0.0},
    "evaluation": {"epoch": 0},
    "resumed": {"checkpoint": "checkpoint-000000005"},
    "memory": {"resident_bytes": 1000, "device_bytes": None},
    "usage_start": {"cores": "0", "interfaces": [], "accelerators": []},
}


def as_event(**fields: Any) -> Event:
    """Returns the event with these fields, as if written and read back."""
    event = parse_event(json.dumps({"wall_s": 0.0, **NEEDED.get(fields["kind"], {}), **fields}))
    assert event is not None, fields["kind"]
    return event


def changed(event: Event, **fields: Any) -> Event:
    """Returns the event with some fields changed."""
    return as_event(**{**event.model_dump(exclude_unset=True), "kind": event.kind, **fields})


def as_lines(*events: dict[str, Any]) -> str:
    """Returns the text of an event file."""
    return "".join(json.dumps({"wall_s": 1.0, **NEEDED.get(event["kind"], {}), **event}) + "\n" for event in events)
