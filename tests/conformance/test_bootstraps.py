"""Every bootstrap sampler draws the same from the same generator, and what its theory says."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trainmark.data.bootstrap import EXPECTATIONS, audit_counts, sample_counts, write_bootstraps
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.files import read_json
from trainmark.spec.registries import BOOTSTRAPS
from trainmark.spec.run_folder import RunFolder

N = 50_000
# Of one sample's count: the variance; of all of them: the standard deviation of their sum; the share above zero.
EXPECTED = {
    "poisson": (1.0, math.sqrt(N), 1 - 1 / math.e),
    "multinomial": (1 - 1 / N, 0.0, 1 - 1 / math.e),
    "none": (0.0, 0.0, 1.0),
}


def drawn(name: str, seed: int) -> NDArray[Any]:
    counts: NDArray[Any] = BOOTSTRAPS.load(name)(N, np.random.default_rng(seed))
    return counts


@pytest.mark.parametrize("name", list(BOOTSTRAPS))
def test_it_draws_the_same_from_the_same_generator_and_else_something_else(name: str) -> None:
    assert np.array_equal(drawn(name, 1), drawn(name, 1))
    assert np.array_equal(drawn(name, 1), drawn(name, 2)) == (name == "none")


@pytest.mark.parametrize("name", list(BOOTSTRAPS))
@pytest.mark.parametrize("num_samples", [1, 2, 10_000])
def test_it_counts_each_sample_in_whole_numbers_that_fit_a_byte(name: str, num_samples: int) -> None:
    counts = sample_counts(name, num_samples, seed=1, member=0)
    assert counts.shape == (num_samples,) and counts.dtype == np.uint8
    assert audit_counts(counts, name)["draws"] == counts.sum()


@pytest.mark.parametrize("name", list(EXPECTED))
def test_its_sum_variance_and_share_are_those_of_its_theory(name: str) -> None:
    variance, deviation_of_sum, present = EXPECTED[name]
    counts = [drawn(name, seed) for seed in range(8)]
    for each in counts:
        assert abs(int(each.sum()) - N) <= 5 * deviation_of_sum
        assert np.var(each) == pytest.approx(variance, abs=0.05)
        assert np.count_nonzero(each) / N == pytest.approx(present, abs=5 * math.sqrt(0.25 / N))
    # Sums vary as theory says, and not less: the deviation of 8 sums is within a factor of three, for any seed.
    assert deviation_of_sum / 3 <= np.std([each.sum() for each in counts]) <= 3 * deviation_of_sum


def test_each_of_our_own_has_its_theory_here_and_in_the_audit() -> None:
    assert set(EXPECTED) == set(EXPECTATIONS)
    assert {name: each.present_share for name, each in EXPECTATIONS.items()} == {
        name: row[2] for name, row in EXPECTED.items()
    }


def every_other(num_samples: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Samples 1, 3, 5, …, twice each."""
    return np.arange(num_samples) % 2 * 2


def too_many(num_samples: int, random: np.random.Generator) -> NDArray[np.int64]:
    """More than a byte holds."""
    return np.full(num_samples, 300)


def shares(num_samples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """No whole numbers."""
    return np.ones(num_samples)


def test_a_plug_ins_sampler_is_drawn_from_and_audited_without_a_theory(tmp_path: Path) -> None:
    name, folder = f"{__name__}:every_other", RunFolder(tmp_path)
    assert resolve_config([parse_setting(f"ensemble.bootstrap={name}")]).ensemble.bootstrap == name
    write_bootstraps(folder, name, 10, seed=1, members=1)
    assert np.load(folder.bootstrap_counts(0)).tolist() == [0, 2] * 5
    (entry,) = read_json(folder.bootstrap_audit)["members"]
    assert (entry["draws"], entry["present_share"], entry["expected_share"], entry["as_expected"]) == (
        10,
        0.5,
        None,
        True,
    )


def test_a_sampler_whose_counts_are_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must return counts from 0 to 255, but returned 300 to 300\."):
        sample_counts(f"{__name__}:too_many", 4, seed=1, member=0)
    with pytest.raises(
        ConfigError, match=r"must return 4 integers, but returned an array of float64 and shape \(4,\)\."
    ):
        sample_counts(f"{__name__}:shares", 4, seed=1, member=0)


def test_an_unknown_sampler_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"There is no bootstrap 'poison'\. Did you mean 'poisson'\?"):
        resolve_config([parse_setting("ensemble.bootstrap=poison")])
