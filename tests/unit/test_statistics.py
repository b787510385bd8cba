"""Intervals and the warm-up rule, on samples with known answers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.collect.statistics import (
    find_steady_state,
    mean_interval,
    median_interval,
    pooled_rates,
    product_interval,
    quantile_interval,
    rate_interval,
    union_length,
    within,
)
from trainmark.spec.result import Metric
from trainmark.workloads.quality.top1 import Top1


def test_the_interval_of_a_high_quantile_needs_many_samples() -> None:
    # 0.99^367 = 0.02501 and 0.99^368 = 0.02476: from 368 samples on, all but 2.5 % of the maxima are above.
    assert quantile_interval(np.arange(367.0), 0.99) is None
    interval = quantile_interval(np.random.default_rng(1).permutation(np.arange(368.0)), 0.99)
    assert interval is not None and interval[0] < 0.99 * 368 < interval[1] == 367.0
    # The median's, of 10: P(Bin(10, ½) ≤ 1) = 11/1024 < 0.025 ≤ P(≤ 2), so from the second to the ninth.
    assert quantile_interval(np.arange(1.0, 11.0), 0.5) == (2.0, 9.0)


def test_the_medians_interval_is_made_of_order_statistics() -> None:
    # For n = 20 the tables give the 6th and the 15th value.
    assert median_interval(np.arange(1.0, 21.0)) == (6.0, 15.0)


def test_six_samples_are_the_fewest_for_a_95_percent_interval_of_a_median() -> None:
    assert median_interval(np.arange(5.0)) is None
    assert median_interval(np.arange(6.0)) == (0.0, 5.0)


def test_the_means_interval_is_students() -> None:
    # Mean 2, standard deviation 1, n = 3: t = 4.3027, half width 4.3027 / √3 = 2.4841.
    assert mean_interval(np.array([1.0, 2.0, 3.0])) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert mean_interval(np.array([1.0])) is None


def test_the_means_interval_ends_where_no_mean_can_lie() -> None:
    # Mean 0.65, standard deviation 0.0707, n = 2: t = 12.706, half width 12.706 × 0.05 = 0.6353.
    assert mean_interval(np.array([0.6, 0.7])) == pytest.approx((0.0147, 1.2853), abs=1e-4)
    assert mean_interval(np.array([0.6, 0.7]), least=0.0, most=1.0) == pytest.approx((0.0147, 1.0), abs=1e-4)
    assert mean_interval(np.array([0.1, 0.9]), least=0.0, most=1.0) == (0.0, 1.0)


def test_an_interval_is_cut_exactly_at_the_bounds_of_its_range() -> None:
    assert within((-2.8e-17, 1.0000000000000002), 0.0, 1.0) == (0.0, 1.0)
    assert within((0.25, 0.75), 0.0, 1.0) == (0.25, 0.75)
    assert within(None, 0.0, 1.0) is None


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_holds_the_share_and_stays_between_0_and_1(counts: tuple[int, int]) -> None:
    right, samples = counts
    predictions = np.array([[0.9, 0.1]] * right + [[0.1, 0.9]] * (samples - right))
    low, high = Top1.interval(predictions, np.zeros(samples, np.int64))
    assert 0.0 <= low <= right / samples <= high <= 1.0


def test_the_interval_of_a_rate_is_that_of_the_mean_time_inverted() -> None:
    # Times of 1, 2 and 3 s: 2 ± 2.484138 s could be anything. 2, 3 and 4 s: 1 / 5.484138 to 1 / 0.515862 a second.
    assert rate_interval(1 / np.array([1.0, 2.0, 3.0])) is None
    assert rate_interval(1 / np.array([2.0, 3.0, 4.0])) == pytest.approx((0.182344, 1.938503), rel=1e-5)


def test_pooled_rates_are_all_members_amount_over_all_members_time() -> None:
    fast, slow = np.array([1.0, 1.0, 2.0, 2.0]), np.array([2.0, 2.0, 3.0, 3.0])
    ten = np.full(4, 10.0)
    assert pooled_rates([ten], [fast], runs=2).tolist() == [10.0, 5.0]
    # Two steps of each: 40 in 2 + 4 s, then 40 in 4 + 6 s.
    assert pooled_rates([ten, ten], [fast, slow], runs=2).tolist() == pytest.approx([40 / 6, 4.0])
    # Steps of unlike size: 3 in 2 s, then 12 in 4 s.
    assert pooled_rates([np.array([1.0, 2.0, 4.0, 8.0])], [fast], runs=2).tolist() == [1.5, 3.0]


def test_relative_errors_of_a_product_add_in_quadrature() -> None:
    speed = Metric(value=100, unit="", better="higher", status="measured", ci95=(100 / 1.03, 103))
    quality = Metric(value=0.8, unit="", better="higher", status="measured", ci95=(0.8 / 1.01, 0.8 * 1.01))
    interval = product_interval(50.0, (speed, 1.0), (quality, 4.0))
    # √((ln 1.03)² + (4 · ln 1.01)²) = 0.04959
    assert interval == pytest.approx((50 * math.exp(-0.04959), 50 * math.exp(0.04959)), rel=1e-4)


def test_overlapping_time_counts_once() -> None:
    assert union_length([(0, 2), (1, 3), (5, 6)]) == 4
    assert union_length([(0, 10), (2, 3)]) == 10


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=8))
def test_union_length_counts_covered_units(pairs: list[tuple[int, int]]) -> None:
    intervals = [(float(start), float(start + length)) for start, length in pairs]
    covered = {unit for start, length in pairs for unit in range(start, start + length)}
    assert union_length(intervals) == len(covered)


def test_slow_first_steps_are_warm_up() -> None:
    rng = np.random.default_rng(0)
    steps = 0.1 + 0.001 * rng.standard_normal(200)
    steps[:11] = 0.5
    found = find_steady_state(steps)
    assert found.warmup_steps == 11  # the first step, and two groups of five
    assert found.settled


def test_a_steady_run_loses_only_its_first_step() -> None:
    assert find_steady_state(np.full(100, 0.125)) == (1, True)


def test_a_run_that_gets_slower_and_slower_never_settles() -> None:
    assert not find_steady_state(np.linspace(0.1, 0.5, 200)).settled


def test_one_late_step_is_no_warm_up() -> None:
    steps = 0.1 + 0.001 * np.random.default_rng(0).standard_normal(200)
    steps[60] = 2.0
    assert find_steady_state(steps).warmup_steps < 60


def test_too_few_steps_are_never_called_steady() -> None:
    assert find_steady_state(np.full(10, 0.1)) == (1, False)
    assert find_steady_state(np.full(1, 0.1)) == (0, False)


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=300))
def test_at_most_half_of_a_run_is_warm_up(steps: list[float]) -> None:
    assert find_steady_state(np.array(steps)).warmup_steps <= max(1, len(steps) // 2 + 1)
