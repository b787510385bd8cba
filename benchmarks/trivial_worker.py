"""A worker that trains nothing: it writes the records of a finished member at once, to time the launcher alone.

It is called as a real one: python -P -m trainmark.train.worker JOB --rank slurm --attempt N.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

STEPS = 40
AFFINITY = {"cores_asked": "0", "cores_allowed": "0", "threads_asked": 1, "threads_running": 1, "verified": True}


def events(wall_s: float) -> list[dict[str, object]]:
    """Events of a member with one epoch of 40 steps of 1 ms."""
    flops = {"training": 100.0, "operators": {"matrix product": 100.0}}
    return [
        {"kind": "rank_started", "affinity": AFFINITY, "host": "", "pid": 0},
        {"kind": "data_ready", "fingerprint": "none", "draws": 400},
        {"kind": "model_ready", "model": "none", "conventions": {"exact": flops, "ai500": flops}},
        {"kind": "run_start", "epoch": 0},
        {"kind": "epoch_start", "epoch": 0},
        {"kind": "steps", "first_step": 0, "step_s": [0.001] * STEPS, "wait_s": [0.0] * STEPS, "loss": [1.0] * STEPS},
        {"kind": "epoch_stop", "epoch": 0, "next_step": STEPS, "epoch_s": 0.04, "samples": 400, "harness_s": 0.0},
        {"kind": "evaluation", "quality": 0.8, "epoch": 0},
        {"kind": "run_stop", "quality": 0.8},
        {"kind": "memory", "resident_bytes": 1, "device_bytes": None},
        {"kind": "finished"},
    ]


def main() -> None:
    """Writes events, predictions and the completion record of the member."""
    words = sys.argv[1:]
    job, number = Path(words[words.index("trainmark.train.worker") + 1]), words[words.index("--attempt") + 1]
    member, run = job.parent.name, job.parents[2]
    written = run / "events" / member / f"attempt-{number}" / "rank-0.jsonl"
    written.parent.mkdir(parents=True)
    now = time.time()
    written.write_text("".join(json.dumps({"wall_s": now, "monotonic_s": 0.0, **each}) + "\n" for each in events(now)))
    attempt = job.parent / f"attempt-{number}"
    np.savez(
        attempt / "predictions.npz",
        eval_predictions=np.array([[0.9, 0.1], [0.2, 0.8]], np.float32),
        eval_labels=np.array([0, 1]),
        oob_indices=np.array([4, 7]),
        oob_predictions=np.array([[0.9, 0.1], [0.9, 0.1]], np.float32),
        oob_labels=np.array([0, 1]),
    )
    (attempt / "done.json").write_text(json.dumps({"member": int(member), "attempt": int(number), "quality": 0.8}))


if __name__ == "__main__":
    main()
