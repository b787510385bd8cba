"""The cost of the loop per step: rates, recording and iteration around a no-op engine.

Everything outside the engine is real: the plan of an epoch, learning rates, the step recorder with its blocks on disk,
the checks for checkpoints and for a request to end. At most 50 µs a step are allowed.

Usage: python benchmarks/loop_cost.py [--steps N] [--repeats N] [--json FILE]
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from trainmark.collect.statistics import median_interval
from trainmark.data.epochs import Rows, RowViews
from trainmark.data.source import Synthetic
from trainmark.machine.local_site import local_site
from trainmark.machine.software import describe_machine
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.events import EpochFacts
from trainmark.spec.job_record import JobRecord
from trainmark.spec.run_folder import Places
from trainmark.store.new_run import write_run
from trainmark.train.checkpoints import Checkpoints, Position
from trainmark.train.end_of_training import EndOfTraining
from trainmark.train.end_request import EndRequest
from trainmark.train.engine import Data, Engine, HostClock, RankContext
from trainmark.train.event_log import EventLog
from trainmark.train.loop import train

MAX_US = 50.0
BATCH = 32


class NoEngine:
    """A no-op engine with the methods that the loop calls."""

    clock = HostClock()

    def feed(self, rows: Rows, views: RowViews | None, passes: object = None) -> Iterator[None]:
        return iter([None] * len(rows))

    def step(self, batch: None, rate: float, decay_factor: float) -> float:
        return 1.0

    def sync_weights(self) -> None: ...

    def epoch_facts(self) -> EpochFacts:
        return {}

    def why_bytes_uncounted(self) -> str | None:
        return "nothing is sent"

    def barrier(self) -> None: ...


def measure(steps: int) -> float:
    """Microseconds per step, over one epoch of `steps` steps."""
    chosen = [
        *("dataset=synthetic", f"data.num_train={steps * BATCH}", f"train.batch_size={BATCH}", "train.epochs=1"),
        *("ensemble.members=1", "ensemble.workers=1", "ensemble.bootstrap=none", "launch.checkpoint_epochs=0"),
    ]
    site = local_site()
    with tempfile.TemporaryDirectory() as name:
        config, plan = make_plan(resolve_config([parse_setting(text) for text in chosen]), site)
        record = JobRecord(write_run(config, plan, site, Places.of(Path(name))), config, site, plan.jobs[0])
        attempt = record.folder.attempt(0, 1)
        context = RankContext(record, record.job.ranks[0], attempt, EventLog(attempt.rank_events(0)))
        counts = np.ones(steps * BATCH, np.uint8)
        data = Data(counts, (3, 32, 32), Synthetic((3, 32, 32), 10, 1), None)
        end = EndOfTraining(context, None, steps)
        began_s = time.perf_counter()
        train(context, cast(Engine, NoEngine()), data, Checkpoints(context, None, EndRequest()), Position(), end)
        return (time.perf_counter() - began_s) / steps * 1e6


def main() -> None:
    """Prints the cost; exit code 1 if it is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="steps per timed epoch")
    parser.add_argument("--repeats", type=int, default=10, help="number of timed epochs")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    machine = describe_machine()
    costs = np.array([measure(options.steps) for _ in range(options.repeats)])
    median, (low, high) = float(np.median(costs)), median_interval(costs)
    print(
        f"loop: {median:.1f} µs per step outside the engine (95 % interval {low:.1f} – {high:.1f}, n = {len(costs)} × "
        f"{options.steps} steps; at most {MAX_US:g}), on {machine['cpu']}"
    )
    if options.json:
        row: dict[str, Any] = {"machine": machine, "us_per_step": costs.tolist()}
        options.json.write_text(json.dumps(row, indent=2) + "\n")
    sys.exit(median > MAX_US)


if __name__ == "__main__":
    main()
