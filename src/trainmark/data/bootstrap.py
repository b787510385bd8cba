"""The Data Sampler: how often each training sample stands in a member's bootstrap, as one small array."""

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import steps_per_epoch
from trainmark.spec.config import RunConfig
from trainmark.spec.files import write_json
from trainmark.spec.layout import global_batch
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.seeds import Purpose, stream

Method = Literal["poisson", "multinomial", "none"]
Counts = NDArray[np.uint8]

MOST_DRAWN = 1000
PRESENT_SHARE = 1 - 1 / math.e  # of the samples are drawn at least once: 63.2 %


def sample_counts(method: Method, num_samples: int, seed: int, member: int) -> Counts:
    """How often each sample is drawn. The same member draws the same whatever the size of the ensemble."""
    if method == "none":
        return np.ones(num_samples, np.uint8)
    rng = stream(seed, member, Purpose.BOOTSTRAP)
    if method == "poisson":
        counts = rng.poisson(1.0, num_samples)
    else:
        counts = np.bincount(rng.integers(0, num_samples, num_samples), minlength=num_samples)
    return counts.astype(np.uint8)  # 255 draws of one sample have a probability below 1e-500


def audit_counts(counts: Counts, method: Method) -> dict[str, Any]:
    """What was drawn, and whether the share of samples present is as promised, within 5 standard errors."""
    present = float(np.count_nonzero(counts) / len(counts))
    expected = 1.0 if method == "none" else PRESENT_SHARE
    # A multinomial draw varies less than independent Poisson ones: their error bounds both. 1/N: its finite size.
    tolerance = 5 * math.sqrt(expected * (1 - expected) / len(counts)) + 1 / len(counts)
    return {
        "samples": len(counts),
        "draws": int(counts.sum(dtype=np.int64)),
        "present_share": present,
        "expected_share": expected,
        "as_expected": abs(present - expected) <= tolerance,
    }


def check_draws(config: RunConfig, num_samples: int, members: int, workers: int) -> None:
    """Raises if a member's bootstrap holds fewer draws than one global batch; of many members, the first are drawn."""
    method = config.ensemble.bootstrap
    # The sum of N Poisson counts is below N − 10 √N with a probability below 1e-21.
    surely = num_samples - (10 * math.sqrt(num_samples) if method == "poisson" else 0)
    if global_batch(config.train, workers) <= surely:
        return
    for member in range(min(members, MOST_DRAWN) if method == "poisson" else 1):
        counts = sample_counts(method, num_samples, config.seed, member)
        steps_per_epoch(int(counts.sum(dtype=np.int64)), config.train, workers)


def write_bootstraps(
    folder: RunFolder,
    method: Method,
    num_samples: int,
    seed: int,
    members: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Each member's counts as a .npy file, and the audit of them all beside; the folder is no run yet."""
    audits = []
    folder.bootstrap.mkdir(parents=True, exist_ok=True)
    for member in range(members):
        counts = sample_counts(method, num_samples, seed, member)
        np.save(folder.bootstrap_counts(member), counts)
        audits.append({"member": member, **audit_counts(counts, method)})
        if progress is not None:
            progress(member + 1, members)
    write_json(folder.bootstrap_audit, {"method": method, "seed": seed, "members": audits})
    return audits


def read_counts(folder: RunFolder, member: int) -> Counts:
    """The counts that `write_bootstraps` wrote."""
    counts: Counts = np.load(folder.bootstrap_counts(member), allow_pickle=False)
    return counts
