"""Events: what each rank measured, one JSON object a line, and how to read them back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    "ceiling": "what this rank's cores can do: FLOP/s of each kernel",
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


def read_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """The whole events from byte `offset` on, and the offset to go on from; a half-written last line waits."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    whole, newline, _ = data.rpartition(b"\n")
    return list(_parse(whole)), offset + len(whole) + len(newline)


def _parse(data: bytes) -> Iterator[Event]:
    for line in data.split(b"\n"):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError:  # a line torn by a crash; the lines around it still count
                continue
