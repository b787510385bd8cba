"""The estimate of memory against measured peaks: models × shapes × layouts × precisions × techniques.

Each row is a whole `trainmark run` of three steps on synthetic images; the estimate is that of `--dry-run`. Memory
hardly depends on noise, so each runs once.

Usage: python benchmarks/memory_estimate.py [--rows N,M,…] [--allocator NAME] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from trainmark.machine.software import describe_machine
from trainmark.spec.units import show_bytes

WITHIN = 0.15


class Row(NamedTuple):
    """What is trained: a batch of images of one shape."""

    model: str
    batch: int
    height: int
    width: int
    layout: str = "channels-last"
    precision: str = "fp32"
    technique: str = "none"

    @property
    def settings(self) -> list[str]:
        """The settings of its run."""
        techniques = {"recompute": ["train.torch.recompute=true"], "offload": ["train.torch.offload=disk"]}
        return [
            *("dataset=synthetic", f"model={self.model}", f"data.height={self.height}", f"data.width={self.width}"),
            *(f"data.num_train={3 * self.batch}", f"train.batch_size={self.batch}", "train.steps=3"),
            *("train.optimizer=adam", f"train.precision={self.precision}", "measure.ceiling=false"),
            *(f"train.torch.memory_format={self.layout}", "train.torch.compiler=none", "ensemble.bootstrap=none"),
            *techniques.get(self.technique, []),
        ]


ROWS = (
    Row("resnet18", 1, 1500, 1000),
    Row("resnet18", 4, 700, 500),
    Row("resnet18", 32, 224, 224),
    Row("resnet18", 1, 1500, 1000, "contiguous"),
    Row("resnet18", 1, 1500, 1000, "onednn"),
    Row("resnet18", 1, 1500, 1000, precision="bf16-mixed"),
    Row("resnet18", 1, 1500, 1000, technique="recompute"),
    Row("resnet18", 1, 1500, 1000, technique="offload"),
    Row("resnet18", 1, 1500, 1000, "contiguous", technique="recompute"),
    Row("resnet-tiny", 4, 1000, 800, "contiguous"),
    Row("resnet-tiny", 1024, 32, 32, "contiguous"),
    Row("resnet34", 1, 900, 900),
    Row("resnet34", 1, 900, 900, "contiguous", "bf16-mixed"),
    Row("resnet50-v1.5", 1, 800, 600),
    Row("resnet50-v1.5", 8, 224, 224, "contiguous"),
    Row("resnet50-v1.5", 1, 800, 600, "onednn"),
    Row("resnet50-v1.5", 1, 800, 600, technique="recompute"),
    Row("resnet50-v1.5", 1, 800, 600, precision="bf16-mixed", technique="recompute"),
    Row("vgg16", 1, 500, 600),
    Row("densenet121", 1, 600, 500),
    Row("densenet121", 4, 224, 224, "contiguous", "bf16-mixed"),
    Row("densenet121", 1, 600, 500, technique="recompute"),
)


def run(row: Row, allocator: str, folder: str, *more: str) -> dict[str, Any]:
    """The document that `trainmark run` prints."""
    settings = [*row.settings, f"launch.allocator={allocator}", "launch.threads=1"]
    command = [sys.executable, "-m", "trainmark", "run", "--members", "1", "--workers", "1", "--json", *more]
    command += ["--runs-dir", folder, *(word for each in settings for word in ("--set", each))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def compare(row: Row, allocator: str) -> dict[str, Any]:
    """Expected and measured bytes, or why there are none."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            expected = run(row, allocator, folder, "--dry-run")["estimate"]["worker_bytes"][1]
            measured = run(row, allocator, folder)["metrics"]["peak_memory_bytes"]["value"]
    except RuntimeError as error:
        return {**row._asdict(), "unavailable": str(error)}
    return {**row._asdict(), "expected_bytes": expected, "measured_bytes": measured}


def main() -> None:
    """Prints the table; exit code 1 if an estimate is off by more than 15 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="numbers of rows, from 0; default: all")
    parser.add_argument("--allocator", default="glibc-mmap")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    chosen = ROWS if options.rows is None else [ROWS[int(number)] for number in options.rows.split(",")]
    machine, rows = describe_machine(), []
    print(f"{options.allocator}, on {machine['cpu']}\n")
    print("| model | batch | layout | precision | activations | estimate | measured | ratio |\n" + 8 * "|---" + "|")
    for row in chosen:
        found = compare(row, options.allocator)
        rows.append(found)
        what = f"| {row.model} | {row.batch} × {row.height} × {row.width} | {row.layout} | {row.precision} "
        what += f"| {'kept' if row.technique == 'none' else row.technique} "
        if "unavailable" in found:
            print(f"{what}| unavailable: {found['unavailable']} | | |", flush=True)
            continue
        expected, measured = found["expected_bytes"], found["measured_bytes"]
        print(f"{what}| {show_bytes(expected)} | {show_bytes(measured)} | {expected / measured:.2f} |", flush=True)
    ratios = [each["expected_bytes"] / each["measured_bytes"] for each in rows if "measured_bytes" in each]
    within = [abs(ratio - 1) <= WITHIN for ratio in ratios]
    print(f"\n{sum(within)} of {len(ratios)} within {100 * WITHIN:.0f} %")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
    sys.exit(not all(within))


if __name__ == "__main__":
    main()
