"""Throughput of loader processes (read, decode, crop), compared with a model's training throughput.

Photographs of about 500 × 375 pixels are written in ImageNet's layout (or `--data DIR` has them), then read through the
same batches that a run uses, with 1, 2, … loader workers. Files just written come from memory, so that this is the rate
of decoding and cropping; storage comes on top. The training rate is that of a whole `trainmark run` on synthetic images
of the same shape: loading keeps up where it is no slower. Both were measured alone; on a CPU they share its cores.

Usage: python benchmarks/loading.py [--images N] [--pixels N] [--batch N] [--workers N …] [--model NAME] [--json FILE]
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainmark.collect.statistics import median_interval
from trainmark.data.datasets.imagenet import Imagenet, ImagenetSettings
from trainmark.data.images.stored import StoredImages
from trainmark.data.readers import Readers
from trainmark.data.source import Streamed
from trainmark.machine.software import describe_machine
from trainmark.train.torch.batches import StreamedBatches

PARTS = 10  # subintervals of the measured time, for the confidence interval
PROBED_IMAGES = 20
AUGMENTATION = "crop"


def loading_rate(split: StoredImages, workers: int, batch: int, seconds: float) -> dict[str, Any]:
    """Steady-state throughput of `workers` loader workers, in images per second."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    readers = Readers([split], AUGMENTATION, workers)
    batches = StreamedBatches(Streamed(split, readers), device, channels_last=True)
    warm_up = 4 * max(1, workers)  # batches: past those prefetched before the first one arrived
    steps = warm_up + max(2 * PARTS, math.ceil(seconds * probed_rate(split) * max(1, workers) / batch))
    random = np.random.default_rng(workers)
    rows, seeds = random.integers(0, len(split), (steps, batch)), random.integers(1, 2**62, (steps, batch))
    began_s = time.perf_counter()
    came_s = [time.perf_counter() for _ in batches.take(rows, seeds)]
    marks = np.linspace(warm_up, steps - 1, PARTS + 1).astype(int)
    rates = np.array([(end - start) * batch / (came_s[end] - came_s[start]) for start, end in pairwise(marks)])
    return {
        "loader_workers": workers,
        "images_per_s": (steps - 1 - warm_up) * batch / (came_s[-1] - came_s[warm_up]),
        "ci95": median_interval(rates),
        "images": (steps - 1 - warm_up) * batch,
        "first_batch_s": came_s[0] - began_s,
    }


def probed_rate(split: StoredImages) -> float:
    """An estimate of one process's throughput in images per second."""
    began_s = time.perf_counter()
    for index in range(PROBED_IMAGES):
        split.read(index % len(split), AUGMENTATION, index + 1)
    return PROBED_IMAGES / (time.perf_counter() - began_s)


def training_rate(model: str, pixels: int, batch: int) -> dict[str, Any]:
    """Training throughput with synthetic data, or why it failed."""
    settings = ["dataset=synthetic", f"model={model}", f"data.height={pixels}", f"data.width={pixels}"]
    settings += [f"data.num_train={20 * batch}", f"train.batch_size={batch}", "train.epochs=1", "measure.ceiling=false"]
    settings += ["ensemble.bootstrap=none", "launch.checkpoint_epochs=0"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trainmark", "run", "--members", "1", "--workers", "1", "--json"]
        command += ["--runs-dir", folder, *(word for each in settings for word in ("--set", each))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"unavailable": done.stderr.strip().splitlines()[-1]}
    throughput = json.loads(done.stdout)["metrics"]["throughput_samples_per_s"]
    return {"images_per_s": throughput["value"], "ci95": throughput["ci95"]}


def open_images(data: Path | None, made: Path, images: int, pixels: int) -> StoredImages:
    """The training split of `data`, or of newly generated images."""
    settings = ImagenetSettings(path=str(data or made), image_size=pixels, num_train=images, num_eval=10)
    if data is None:
        Imagenet(settings).make(made, lambda *_: None)
    return Imagenet(settings).load("train")


def default_workers() -> list[int]:
    """1, 2, 4 … up to the number of cores."""
    cores = describe_machine()["cores"]
    return [2**power for power in range(int(math.log2(cores)) + 1)]


def show(row: dict[str, Any]) -> str:
    """A rate with its interval."""
    if "unavailable" in row:
        return f"unavailable: {row['unavailable']} |"
    interval = "–".join(f"{bound:.1f}" for bound in row["ci95"]) if row["ci95"] else ""
    return f"{row['images_per_s']:.1f} | {interval}"


def print_table(model: str, training: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Prints a Markdown table."""
    print("| | images/s | 95 % interval | × training | first batch s |\n|---|---|---|---|---|")
    print(f"| training {model} | {show(training)} | | |")
    for row in rows:
        ratio = f"{row['images_per_s'] / training['images_per_s']:.2f}" if "images_per_s" in training else ""
        print(f"| {row['loader_workers']} loader worker(s) | {show(row)} | {ratio} | {row['first_batch_s']:.1f} |")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256, help="number of generated images")
    parser.add_argument("--data", type=Path, help="a folder with ImageNet's layout, instead of generated images")
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, nargs="+", help="default: 1, 2, 4 … up to the cores")
    parser.add_argument("--seconds", type=float, default=10, help="measuring time per number of loader workers")
    parser.add_argument("--model", default="resnet18", help="the model to compare with")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    machine = describe_machine()
    print(f"Loading {options.pixels}² images, batch {options.batch}, on {machine['cpu']}, {machine['cores']} cores\n")
    training = training_rate(options.model, options.pixels, options.batch)
    with tempfile.TemporaryDirectory() as folder:
        split = open_images(options.data, Path(folder), options.images, options.pixels)
        counts = options.workers or default_workers()
        rows = [loading_rate(split, workers, options.batch, options.seconds) for workers in counts]
    print_table(options.model, training, rows)
    if options.json:
        figures = {"machine": machine, "model": options.model, "training": training, "loading": rows}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
