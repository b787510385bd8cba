"""One GPU: images per second of `trainmark run` with synthetic data over those of a hand-written script, alternately.

Each row is measured --rounds times; in a round the script and trainmark run one right after the other, each as a whole
separate process. The ratio of a row is the median of its rounds' ratios; all rounds are printed.

Usage: python benchmarks/accelerator.py [--rounds N] [--json FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

BARE = Path(__file__).with_name("bare_gpu.py")


class Row(NamedTuple):
    """A model and shape, and what trainmark's default recipe is compared with."""

    name: str
    model: str
    pixels: int
    batch: int
    steps: int
    bare: tuple[str, ...]
    at_least: float


ROWS = (
    Row("ResNet-50 224², over compiled script", "resnet50-v1.5", 224, 256, 120, (), 1.0),
    Row("ResNet-18 32², over eager script", "resnet18", 32, 128, 1000, ("--eager",), 2.5),
)


def bare_rate(row: Row) -> float:
    """Throughput of the hand-written script in images per second."""
    command = [sys.executable, str(BARE), "--model", row.model, "--pixels", str(row.pixels)]
    command += ["--batch", str(row.batch), "--steps", str(row.steps), *row.bare]
    return float(json.loads(_output(command).splitlines()[-1])["images_per_s"])


def trainmark_result(row: Row) -> dict[str, Any]:
    """The Result of a whole run; recipe and engine are the defaults of the device."""
    settings = (
        "dataset=synthetic",
        f"model={row.model}",
        f"data.height={row.pixels}",
        f"data.width={row.pixels}",
        f"data.num_train={row.batch * row.steps}",
        f"train.batch_size={row.batch}",
        "train.epochs=2",
        "ensemble.bootstrap=none",
        "launch.checkpoint_epochs=0",
        "measure.ceiling=false",
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trainmark", "run", "--members", "1", "--workers", "1", "--json"]
        command += ["--runs-dir", folder, *(word for setting in settings for word in ("--set", setting))]
        result: dict[str, Any] = json.loads(_output(command))
    return result


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def measure(row: Row, rounds: int) -> dict[str, Any]:
    """The row's figures."""
    bare, ours, engine = [], [], {}
    for _ in range(rounds):
        bare.append(bare_rate(row))
        result = trainmark_result(row)
        ours.append(result["metrics"]["throughput_samples_per_s"]["value"])
        engine = result["engine"]
        print(f"  {row.name}: script {bare[-1]:,.0f}, trainmark {ours[-1]:,.0f} images/s", flush=True)
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    return {
        "name": row.name,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "script_images_per_s": bare,
        "trainmark_images_per_s": ours,
        "engine": engine,
    }


def main() -> None:
    """Prints the table; exit code 1 if a row is below its required ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    rows = [measure(row, options.rounds) for row in ROWS]
    for row, figures in zip(ROWS, rows, strict=True):
        spread = ", ".join(f"{ratio:.3f}" for ratio in figures["ratios"])
        print(f"{row.name}: ratio {figures['ratio']:.3f} ({spread}; required: {row.at_least:g})")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(any(figures["ratio"] < row.at_least for row, figures in zip(ROWS, rows, strict=True)))


if __name__ == "__main__":
    main()
