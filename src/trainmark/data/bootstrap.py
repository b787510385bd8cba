"""The Data Sampler: how often each training sample is drawn in a member's bootstrap, as one small array."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import steps_per_epoch
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import ConfigError
from trainmark.spec.files import one_line, write_json
from trainmark.spec.layout import global_batch
from trainmark.spec.registries import BOOTSTRAPS
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.seeds import RandomStream, generator_for

Counts = NDArray[np.uint8]
MAX_COUNTED = 255

MAX_DRAWN = 1000
PRESENT_SHARE = 1 - 1 / math.e  # of the samples are drawn at least once: 63.2 %


def poisson(num_samples: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A Poisson(1) count for each sample, independent of all others."""
    return random.poisson(1.0, num_samples)


def multinomial(num_samples: int, random: np.random.Generator) -> NDArray[np.int64]:
    """N draws with replacement from N samples, as Breiman's bagging does."""
    return np.bincount(random.integers(0, num_samples, num_samples), minlength=num_samples)


def none(num_samples: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Every sample once, the same for all members."""
    return np.ones(num_samples, np.int64)


class Expectation(NamedTuple):
    """The expected statistics of a sampler."""

    present_share: float  # fraction of samples drawn at least once
    draws_vary: bool  # whether the total number of draws is random


# Nothing is expected of a plug-in's sampler: its audit only states what was drawn.
EXPECTATIONS = {
    "poisson": Expectation(PRESENT_SHARE, draws_vary=True),
    "multinomial": Expectation(PRESENT_SHARE, draws_vary=False),
    "none": Expectation(1.0, draws_vary=False),
}


def sample_counts(method: str, num_samples: int, seed: int, member: int) -> Counts:
    """How often each sample is drawn; independent of the size of the ensemble."""
    sample = BOOTSTRAPS.load(method)
    try:
        counts = np.asarray(sample(num_samples, generator_for(seed, member, RandomStream.BOOTSTRAP)))
    except (TypeError, ValueError, LookupError, AttributeError) as error:  # a plug-in's
        raise ConfigError(f"The bootstrap '{method}' failed: {one_line(error)}.") from error
    if counts.shape != (num_samples,) or counts.dtype.kind not in "iu":
        got = f"an array of {counts.dtype} and shape {counts.shape}"
        raise ConfigError(f"The bootstrap '{method}' must return {num_samples} integers, but returned {got}.")
    # With the built-in samplers, 255 draws of one sample have a probability below 1e-500.
    if num_samples and not 0 <= counts.min() <= counts.max() <= MAX_COUNTED:
        raise ConfigError(
            f"The bootstrap '{method}' must return counts from 0 to {MAX_COUNTED}, but returned {counts.min()} to "
            f"{counts.max()}."
        )
    return counts.astype(np.uint8)


def audit_counts(counts: Counts, method: str) -> dict[str, Any]:
    """What was drawn, and whether the share of samples present is as expected, within 5 standard errors."""
    present = float(np.count_nonzero(counts) / len(counts))
    expected = EXPECTATIONS[method].present_share if method in EXPECTATIONS else present
    # A multinomial draw varies less than independent Poisson draws, whose error bounds both; 1/N for finite size.
    tolerance = 5 * math.sqrt(expected * (1 - expected) / len(counts)) + 1 / len(counts)
    return {
        "samples": len(counts),
        "draws": int(counts.sum(dtype=np.int64)),
        "present_share": present,
        "expected_share": expected if method in EXPECTATIONS else None,
        "as_expected": abs(present - expected) <= tolerance,
    }


def check_draws(config: RunConfig, num_samples: int, members: int, workers: int) -> None:
    """Raises if a member's bootstrap has fewer draws than one global batch; checks at most the first members."""
    method = config.ensemble.bootstrap
    expectation = EXPECTATIONS.get(method)
    varies = expectation is None or expectation.draws_vary
    # The sum of N Poisson counts is below N − 10 √N with a probability below 1e-21.
    guaranteed = 0.0 if expectation is None else num_samples - (10 * math.sqrt(num_samples) if varies else 0)
    if global_batch(config.train, workers) <= guaranteed:
        return
    for member in range(min(members, MAX_DRAWN) if varies else 1):
        counts = sample_counts(method, num_samples, config.seed, member)
        steps_per_epoch(int(counts.sum(dtype=np.int64)), config.train, workers)


def write_bootstraps(
    folder: RunFolder,
    method: str,
    num_samples: int,
    seed: int,
    members: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Writes each member's counts as a .npy file, and the audit of all; returns the audits."""
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
    """Reads the counts of a member."""
    counts: Counts = np.load(folder.bootstrap_counts(member), allow_pickle=False)
    return counts
