"""What the ranks of a stored run have measured, as tests read it."""

import json
from pathlib import Path
from typing import Any


def events_of(run_dir: Path, member: int = 0, attempt: int = 1, rank: int = 0) -> list[dict[str, Any]]:
    """The events of one rank of a stored run."""
    path = run_dir / "events" / f"{member:04d}" / f"attempt-{attempt}" / f"rank-{rank}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(run_dir: Path, member: int = 0, attempt: int = 1, rank: int = 0) -> list[float]:
    """Every step's loss of one rank of a member."""
    return [
        loss
        for event in events_of(run_dir, member, attempt, rank)
        if event["kind"] == "steps"
        for loss in event["loss"]
    ]
