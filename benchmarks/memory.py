"""Peak memory of a worker with and without recomputation and offloading of activations.

Each row is a whole `trainmark run` of ResNet-18 on synthetic images, one after another. Memory hardly depends on noise,
so each runs once; the speed beside it is of that one run, benchmarks/levers.py compares speeds properly.

Usage: python benchmarks/memory.py [--pixels N] [--batch N] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trainmark.machine.software import describe_machine
from trainmark.spec.units import show_bytes

ROWS = (
    "train.torch.recompute=false",
    "train.torch.recompute=true",
    "train.torch.offload=disk",
    "train.torch.offload=host",
)


def measure(setting: str, pixels: int, batch: int) -> dict[str, Any]:
    """The run's peak memory and throughput, or why it failed."""
    settings = ["dataset=synthetic", "model=resnet18", f"data.height={pixels}", f"data.width={pixels}"]
    settings += [f"data.num_train={10 * batch}", f"train.batch_size={batch}", "train.epochs=1", "measure.ceiling=false"]
    settings += ["ensemble.bootstrap=none", "train.torch.compiler=none", "train.torch.cuda_graph=false"]
    settings += ["launch.threads=1", setting]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trainmark", "run", "--members", "1", "--workers", "1", "--json"]
        command += ["--runs-dir", folder, *(word for each in settings for word in ("--set", each))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"row": setting, "unavailable": done.stderr.strip().splitlines()[-1]}
    metrics = json.loads(done.stdout)["metrics"]
    return {
        "row": setting,
        "peak_memory_bytes": metrics["peak_memory_bytes"]["value"],
        "where": metrics["peak_memory_bytes"]["detail"]["where"],
        "samples_per_s": metrics["throughput_samples_per_s"]["value"],
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=128)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    machine = describe_machine()
    print(f"ResNet-18, {options.pixels}², batch {options.batch}, on {machine['cpu']}\n")
    print("| choice | peak memory of the worker | samples/s |\n|---|---|---|")
    rows = []
    for setting in ROWS:
        row = measure(setting, options.pixels, options.batch)
        rows.append(row)
        if "unavailable" in row:
            print(f"| `{setting}` | unavailable: {row['unavailable']} | |", flush=True)
        else:
            print(f"| `{setting}` | {show_bytes(row['peak_memory_bytes'])} | {row['samples_per_s']:.1f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
