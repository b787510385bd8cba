"""FLOPS and VFLOPS reproduce AI500's published ranking."""

import math

import pytest

from trainmark.collect.metrics.flops import flops_score, quality_coefficient, vflops_score

# Minutes, top-1, published PFLOPS; 23 GFLOP an image, 1.28 M images, 90 epochs, n = 10. Facebook agrees within 5.2 %.
PUBLISHED = [
    ("Fujitsu", 1.2, 0.751, 31.41, 0.015),
    ("Google", 2.2, 0.763, 20.10, 0.015),
    ("Sony", 3.7, 0.750, 10.02, 0.015),
    ("Tencent", 6.6, 0.760, 6.44, 0.015),
    ("PFN", 15, 0.749, 2.41, 0.015),
    ("Berkeley", 20, 0.754, 1.95, 0.015),
    ("Intel", 28, 0.746, 1.27, 0.015),
    ("IBM", 50, 0.750, 0.75, 0.015),
    ("Facebook", 60, 0.763, 0.70, 0.052),
]


@pytest.mark.parametrize(("system", "minutes", "quality", "published", "tolerance"), PUBLISHED)
def test_the_published_ranking_is_reproduced_with_exponent_10(
    system: str, minutes: float, quality: float, published: float, tolerance: float
) -> None:
    flops = flops_score(23e9, 1_280_000 * 90, minutes * 60)
    recomputed = vflops_score(flops, quality, 0.763, 10) / 1e15
    assert math.isclose(recomputed, published, rel_tol=tolerance), f"{system}: {recomputed}"


def test_flops_is_all_samples_work_over_time() -> None:
    assert flops_score(flop_per_sample=100, samples=50, seconds=10) == 500


def test_the_coefficient_is_one_at_the_target_and_rewards_above_it() -> None:
    assert quality_coefficient(0.763, 0.763, 5) == 1
    assert quality_coefficient(0.9, 0.75, 5) == pytest.approx(1.2**5)
    assert quality_coefficient(0.6, 0.75, 10) == pytest.approx(0.8**10)


def test_ai500s_measured_coefficient_of_image_classification_is_reproduced() -> None:
    # AI500 Fig. 5: 0.96 with n = 5 means a quality of 0.763 · 0.96^(1/5) = 0.7568.
    assert quality_coefficient(0.7568, 0.763, 5) == pytest.approx(0.96, abs=0.001)
