"""The effect of each option of the training engine on step throughput on this machine, relative to the default.

The rows of a group are whole runs of `trainmark run` that differ in one setting and train in turns on the same cores
(benchmarks/turns.py). A ratio above 1 is faster than the default recipe. What a choice costs before the first steps are
made (compiling takes tens of seconds) stands beside it. Exit code 1 if a choice that keeps the losses equal trains the
recipe's steps, start included, more than three percent faster than the default: then the default is wrong here.

Usage: python benchmarks/levers.py [GROUP …] [--seconds S] [--json FILE]
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.collect.statistics import median_interval
from trainmark.machine.allocators import installed_allocators
from trainmark.machine.software import describe_machine
from trainmark.machine.topology import read_topology
from trainmark.spec.units import show_cores
from turns import (
    Contestant,
    means_by_part,
    start_trainmark,
    take_turns,
    trainmark_steps,
    wait_until_training,
    whole_steps,
)

PARTS = 10
DEFAULT = "default"


@dataclass(frozen=True)
class Group:
    """Runs that differ in one setting: `rows` are the settings, all on top of `base`.

    `steps` are those of a full training, which has to amortise a slower start; None if losses differ.
    """

    base: str
    rows: tuple[str, ...]
    steps: int | None = None
    workers: int = 1
    turn_s: float = 0.25


TINY = "data.num_train=2048 data.num_eval=32"
RESNET18 = "dataset=synthetic model=resnet18 data.height=32 data.width=32"
SPEED = (
    "train.torch.memory_format=channels-last",
    "train.torch.memory_format=contiguous",
    "train.torch.memory_format=onednn",
    "train.torch.compiler=inductor",
    "train.torch.compiler=torchscript",
    "train.torch.fused_optimizer=false",
    "launch.allocator=glibc-tuned",
    "launch.allocator=system",
    "launch.allocator=tcmalloc",
    "launch.allocator=jemalloc",
    "launch.thread_binding=close",
    "launch.threads=1",
)

GROUPS = {
    # Six epochs of 125 steps: the workload's own recipe.
    "speed": Group(TINY, SPEED, steps=750),
    # An epoch of ImageNet: a start-up of a minute is negligible.
    "speed-resnet18": Group(RESNET18, SPEED, steps=40_000, turn_s=1.0),
    "precision": Group(
        TINY,
        ("train.precision=bf16-mixed", "train.precision=fp16-mixed", "train.precision=fp16", "train.precision=int8"),
        turn_s=1.0,
    ),
    "memory": Group(RESNET18, ("train.torch.recompute=true", "train.torch.offload=disk"), turn_s=2.0),
    "optimizer": Group(
        TINY,
        ("train.nesterov=true", *(f"train.optimizer={name}" for name in ("adam", "adamw", "adagrad", "lars", "lamb"))),
    ),
    "communication": Group(
        TINY,
        (
            "train.communication=ring",
            "train.communication=hierarchical train.communication_group=1",
            "train.communication=parameter-server",
            "train.communication=local-sgd",
            "train.communication_precision=fp16",
            "train.communication_precision=bf16",
            "train.communication_precision=int8",
            "train.communication_precision=powersgd",
            "train.batch_norm=synchronised",
        ),
        workers=2,
        turn_s=1.0,
    ),
    # The same global batch in every row: a pipeline has one replica, data parallelism two.
    "parallel": Group(
        f"{TINY} train.batch_size=32",
        (
            "train.parallel=sharded",
            "train.parallel=model train.batch_size=64",
            "train.parallel=gpipe train.batch_size=64",
            "train.parallel=1f1b train.batch_size=64",
        ),
        workers=2,
        turn_s=0.5,
    ),
    # The cost of sampling the node: off, and fifty times as often as by default.
    "sampling": Group(
        f"{TINY} launch.threads=1", ("measure.usage_seconds=0", "measure.usage_seconds=0.02"), turn_s=0.5
    ),
    # Modes that need four workers; oversubscribed if there are fewer cores.
    "four-workers": Group(
        f"{TINY} train.batch_size=16",
        (
            "train.communication=ring",
            "train.communication=torus-2d",
            "train.communication=hierarchical train.communication_group=2",
            "train.parallel=1f1b train.stages=2 train.batch_size=32",
            "train.parallel=model train.stages=2 train.batch_size=32",
        ),
        workers=4,
        turn_s=1.0,
    ),
}


def worker_options(workers: int, folder: Path) -> list[str]:
    """Site options for `workers` workers: equal numbers of dedicated cores, or shared cores if there are too few."""
    cores = read_topology().cores
    own = len(cores) // workers
    slots = [cores[own * w : own * (w + 1)] or (cores[w % len(cores)],) for w in range(workers)]
    listed = ", ".join(f'{{ cores = "{show_cores(slot)}" }}' for slot in slots)
    site = folder / "site.toml"
    site.write_text(
        f'name = "this machine"\nallocators = {json.dumps(installed_allocators())}\n'
        f"[[groups]]\nshared_cores = {str(not own).lower()}\n"
        f"slots = [{listed}]\n"
    )
    return ["--workers", str(workers), "--site", str(site)]


def start(group: Group, folder: Path) -> tuple[list[Contestant], dict[str, str]]:
    """Starts the runs, each stopped before the next starts; returns them, and why others failed."""
    place = worker_options(group.workers, folder)
    running, missing = [], {}
    for number, row in enumerate((DEFAULT, *group.rows)):
        settings = group.base.split() + ([] if row == DEFAULT else row.split())
        options = [*place, *(word for setting in settings for word in ("--set", setting))]
        began_s = time.monotonic()
        contestant = start_trainmark(row, folder / str(number), options)
        if reason := wait_until_training(contestant):
            missing[row] = reason
            contestant.end()
        else:
            contestant.start_s = time.monotonic() - began_s
            contestant.signal(signal.SIGSTOP)  # must not slow down the next start-up
            running.append(contestant)
    return running, missing


def measure(group: Group, seconds: float) -> list[dict[str, Any]]:
    """Returns a record per row: its ratio to the default, with interval."""
    with tempfile.TemporaryDirectory() as name:
        running, missing = start(group, Path(name))
        try:
            changes = take_turns(running, group.turn_s, seconds)
        finally:
            for contestant in running:
                contestant.end()
        steps = {c.name: whole_steps(trainmark_steps(c.folder), changes) for c in running}
    means = {row: means_by_part(measured, changes, PARTS) for row, measured in steps.items()}
    records: list[dict[str, Any]] = []
    for row, mean in means.items():
        ratios = (means[DEFAULT] / mean)[~np.isnan(means[DEFAULT] / mean)]
        records.append(
            {
                "row": row,
                "ratio": float(np.median(ratios)),
                "ci95": median_interval(ratios),
                "n": len(ratios),
                "steps": len(steps[row][0]),
                "step_ms": 1e3 * float(np.median(steps[row][0])),
                "start_s": next(contestant.start_s for contestant in running if contestant.name == row),
            }
        )
    return records + [{"row": row, "unavailable": reason} for row, reason in missing.items()]


def faster_than_default(group: Group, records: list[dict[str, Any]]) -> list[str]:
    """The rows that would finish the group's steps more than three percent faster than the default."""
    if group.steps is None:
        return []
    default, found = records[0], []
    training_s = group.steps * default["step_ms"] / 1e3
    for record in records[1:]:
        if record.get("ci95"):
            # The lower bound of its interval, and no credit for a shorter start-up: both could be noise.
            longer_start_s = max(0.0, record["start_s"] - default["start_s"])
            row_s = longer_start_s + training_s / record["ci95"][0]
            found += [record["row"]] if training_s / row_s > 1.03 else []
    return found


def print_group(name: str, group: Group, records: list[dict[str, Any]]) -> None:
    """Prints a Markdown table."""
    print(f"\n{name}: {group.base}, {group.workers} worker(s)\n")
    print("| choice | ratio | 95 % interval | step ms | steps | start s |\n|---|---|---|---|---|---|")
    for record in records:
        if "unavailable" in record:
            print(f"| `{record['row']}` | unavailable: {record['unavailable']} | | | | |")
            continue
        interval = "–".join(f"{bound:.2f}" for bound in record["ci95"]) if record["ci95"] else ""
        ratio, measured = f"{record['ratio']:.2f} | {interval}", f"{record['step_ms']:.1f} | {record['steps']}"
        print(f"| `{record['row']}` | {ratio} | {measured} | {record['start_s']:.0f} |", flush=True)


def main() -> None:
    """Prints a table per group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--seconds", type=float, default=150, help="total time of each group's alternating runs")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"there is no group {', '.join(sorted(unknown))}; known: {', '.join(GROUPS)}")
    machine = describe_machine()
    print(f"Speed of a step over the default recipe's, on {machine['cpu']}, {machine['cores']} cores")
    figures, beaten = {}, []
    for name in options.groups or GROUPS:
        figures[name] = measure(GROUPS[name], options.seconds)
        print_group(name, GROUPS[name], figures[name])
        beaten += [f"{name}: {row}" for row in faster_than_default(GROUPS[name], figures[name])]
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "groups": figures}, indent=2) + "\n")
    if beaten:
        sys.exit(f"faster than the default by more than 3 %: {'; '.join(beaten)}")


if __name__ == "__main__":
    main()
