"""`large-batch` on written-out results: settings of rules, falls of quality, runs that miss the target, steps."""

from typing import Any

import pytest

from tests.unit.test_studies import HERE
from tests.unit.written_outcomes import DIVERGED, MISSED, outcomes, point
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import RunChoices
from trainmark.spec.errors import ConfigError
from trainmark.spec.table import Table
from trainmark.studies.large_batch import LARGE_BATCH, PUBLISHED, RULES, passes_of, rule_settings
from trainmark.studies.outcomes import PointOutcomes
from trainmark.studies.study import Request
from trainmark.studies.target import median_to_target

QUALITY, TOP5, EPOCHS = "quality_ensemble", "top5_ensemble", "epochs_to_target"


def base(*settings: str) -> RunChoices:
    return resolve_config([parse_setting(text) for text in settings])


def run(quality: float, epochs: float | str = MISSED, top5: float = 0.95) -> dict[str, float | str]:
    return {QUALITY: quality, TOP5: top5, EPOCHS: epochs}


def written_table() -> Table:
    """Linear loses 0.1 in each of three rounds from batch 32 to 128, and two of three runs miss the target at 512."""
    return LARGE_BATCH.analyse(
        outcomes(
            point({"rule": "linear", "batch": 32}, [run(0.80, 4), run(0.82, 5), run(0.84, 4)]),
            point({"rule": "linear", "batch": 128}, [run(0.70, 8), run(0.72, 10), run(0.74)]),
            point({"rule": "linear", "batch": 512}, [run(0.60), run(0.62), run(0.66, 6)]),
            point({"rule": "lars", "batch": 32}, [run(0.75)] * 3),
            point({"rule": "lars", "batch": 512}, ["rank 0 failed: out of memory"] * 3),
        )
    )


def row(rule: str, batch: int) -> dict[str, Any]:
    (found,) = written_table().where(rule=rule, batch=batch)
    return found


def test_quality_and_its_change_are_medians_within_rounds() -> None:
    found = row("linear", 512)
    assert found[QUALITY] == 0.62
    # 0.60 − 0.80, 0.62 − 0.82, 0.66 − 0.84
    assert found["quality_change"] == pytest.approx(-0.20)
    assert found["quality_change_high"] == pytest.approx(-0.18)
    assert row("linear", 32)["quality_change"] == 0.0


def test_the_fall_of_each_rule_is_a_finding_and_a_rule_with_one_batch_has_none() -> None:
    assert written_table().findings == (
        "linear: cannot tell whether quality changes from batch 32 to 512: -0.200 (-0.200 to -0.180, n = 3), "
        "0.820 to 0.620",
    )
    five = [point({"rule": "linear", "batch": batch}, [run(q, 4)] * 5) for batch, q in ((32, 0.8), (512, 0.6))]
    assert LARGE_BATCH.analyse(outcomes(*five)).findings == (
        "linear: quality falls from batch 32 to 512: -0.200 (-0.200 to -0.200), 0.800 to 0.600",
    )


def test_a_run_that_misses_the_target_counts_as_one_that_never_gets_there() -> None:
    # 8, 10 and never: the median is 10; never, never and 6: no median.
    assert (row("linear", 128)[EPOCHS], row("linear", 128)["reached_target"]) == (10.0, 2.0)
    assert (row("linear", 512)[EPOCHS], row("linear", 512)["reached_target"]) == (None, 1.0)
    even = point({}, [run(0.8, 4), run(0.7)])
    assert median_to_target(even, EPOCHS) is None


def test_missed_targets_are_counted_in_the_note_with_the_reason() -> None:
    assert row("linear", 512)["note"] == f"target missed by 2 of 3 runs: {MISSED}"
    assert "target missed" not in row("linear", 32)["note"]
    assert row("lars", 512)["note"] == "rank 0 failed: out of memory"


def test_a_run_that_diverged_misses_the_target_and_has_the_worst_quality() -> None:
    table = LARGE_BATCH.analyse(
        outcomes(
            point({"rule": "linear", "batch": 32}, [run(0.80, 4), run(0.82, 5), run(0.84, 4)]),
            point({"rule": "linear", "batch": 128}, [run(0.70, 8), DIVERGED, run(0.74, 10)]),
            point({"rule": "linear", "batch": 512}, [DIVERGED, DIVERGED, run(0.90, 2)]),
            point({"rule": "linear", "batch": 1024}, [DIVERGED] * 3),
        )
    )
    _, one, most, all_ = table.rows
    # 8, 10 and never; 0.70, 0.74 and worse; rates 1/8 over 1/4, 0 and 1/10 over 1/4, times 4.
    assert (one[EPOCHS], one["reached_target"], one[QUALITY]) == (10.0, 2.0, 0.70)
    assert one["fewer_steps"] == pytest.approx(1.6)
    assert one["note"] == f"1 of 3 runs diverged: {DIVERGED}; target missed by 1 of 3 runs: diverged"
    assert [most[name] for name in (EPOCHS, QUALITY, "quality_change", "fewer_steps")] == [None] * 4
    assert most["reached_target"] == 1.0 and "nothing to compare with" not in str(most["note"])
    assert (all_["reached_target"], all_["n"], all_["note"]) == (0.0, 0, f"diverged: {DIVERGED}")
    assert table.findings == (
        "linear: cannot tell whether quality changes from batch 32 to 128: -0.100 (-0.100 to -0.100, n = 2), "
        "0.820 to 0.700",
    )


def test_a_run_of_which_it_is_not_known_counts_neither_way() -> None:
    restarted = "member 0 was restarted from a checkpoint, and may have reached the target before it"
    known = point({"rule": "linear", "batch": 32}, [run(0.8, 4), run(0.8, 6), run(0.8, restarted)])
    found = median_to_target(known, EPOCHS)
    assert found is not None and (found.value, found.n) == (5.0, 2)
    (row,) = LARGE_BATCH.analyse(outcomes(known)).rows
    assert (row[EPOCHS], row["reached_target"]) == (5.0, 2.0)
    assert row["note"] == f"target unknown for 1 of 3 runs: {restarted}"


def test_a_round_that_misses_the_target_saves_no_steps() -> None:
    # Batch × 4; 4/4, 4/8 and never: 1, 1/2 and 0, the median times 4.
    table = LARGE_BATCH.analyse(
        outcomes(
            point({"rule": "linear", "batch": 32}, [run(0.8, 4)] * 3),
            point({"rule": "linear", "batch": 128}, [run(0.8, 4), run(0.8, 8), run(0.7)]),
        )
    )
    assert [row["fewer_steps"] for row in table.rows] == [1.0, 2.0]
    assert [row[EPOCHS] for row in table.rows] == [4.0, 8.0]


def test_of_an_equal_quality_no_change_can_be_told() -> None:
    same = [point({"rule": "linear", "batch": batch}, [run(0.8, 4)]) for batch in (32, 128)]
    found = LARGE_BATCH.analyse(outcomes(*same)).findings
    assert found == (
        "linear: cannot tell whether quality changes from batch 32 to 128: +0.000 (single run), 0.800 to 0.800",
    )


def test_fewer_steps_are_growth_of_batch_over_growth_of_epochs() -> None:
    # Batch × 4; epochs 8/4 and 10/5, both × 2, in the rounds that reached the target: half as many steps.
    assert row("linear", 128)["fewer_steps"] == 2.0
    assert row("linear", 32)["fewer_steps"] == 1.0
    assert row("linear", 512)["fewer_steps"] is None


def test_published_epochs_grow_2_4_fold_so_that_40_times_the_batch_is_16_6_times_fewer_steps() -> None:
    (first, few), *_, (last, many) = PUBLISHED.items()
    assert many / few == pytest.approx(2.41, abs=0.01)
    assert last / first * few / many == pytest.approx(16.6, abs=0.05)


def test_figures_have_a_curve_per_rule_the_target_and_the_published_growth() -> None:
    quality, epochs = LARGE_BATCH.figures(written_table())
    assert quality.svg is not None and epochs.svg is not None
    top1: Any = quality.rows[0][0]
    assert [curve.label for curve in top1.curves] == ["rule linear", "rule lars"]
    assert [(line.label, line.y) for line in top1.references] == [("target", 0.8)]
    to_target, fewer = tuple[Any, ...](epochs.rows[0])
    assert to_target.curves[0].x.tolist() == [32, 128] and to_target.curves[0].y.tolist() == [4, 10]
    ideal, published = fewer.references
    assert ideal.y.tolist() == [1, 4]
    assert published.x[[0, -1]].tolist() == pytest.approx([32, 32 * 65536 / 1632])
    assert "published" in published.label and "512: -0.200 (-0.200 to -0.180, n = 3)" in quality.caption


def test_figures_of_failed_runs_alone_say_so() -> None:
    table = LARGE_BATCH.analyse(outcomes(point({"rule": "linear", "batch": 32}, ["stopped"])))
    assert [drawn.svg for drawn in LARGE_BATCH.figures(table)] == [None, None]


def test_rules_change_the_recipe_as_published() -> None:
    full = base("size=full", "data.path=images")
    lars = rule_settings("lars", full)
    assert (lars["train.epsilon"], lars["train.momentum"], lars["train.decay_power"]) == (0.0, 0.9, 2.0)
    # Reference 256: 7.4 · √(256 / 1632), by the root 16.6 at 8192, where MLPerf has 17.
    assert float(lars["train.learning_rate"]) * (8192 / 256) ** 0.5 == pytest.approx(16.58, abs=0.01)
    assert float(rule_settings("lamb", full)["train.learning_rate"]) * 2**0.5 == pytest.approx(0.005)
    assert rule_settings("collapsed", full)["train.collapse_epochs"] == pytest.approx(5)
    # 85 epochs after warm-up are five half cycles.
    assert rule_settings("cyclic", full)["train.cycle_epochs"] == 34


@pytest.mark.parametrize(
    ("batch", "settings", "passes"),
    [
        (16, (), (16, 1)),
        (32, (), (32, 1)),
        (512, (), (32, 16)),
        (96, (), (32, 3)),
        (34, (), (17, 2)),
        (512, ("train.batch_size=256",), (256, 2)),
        (512, ("ensemble.workers=4",), (32, 4)),
    ],
)
def test_passes_have_at_most_the_recipes_samples_and_make_up_the_batch(
    batch: int, settings: tuple[str, ...], passes: tuple[int, int]
) -> None:
    assert passes_of(batch, base(*settings)) == passes


def test_a_batch_that_workers_cannot_share_is_refused() -> None:
    with pytest.raises(ConfigError, match="--batch 33 cannot be divided among 2 workers"):
        passes_of(33, base("ensemble.workers=2"))


@pytest.mark.parametrize(
    ("batch", "settings", "says"),
    [
        (37, (), "--batch 37 .* passes of 1 at most, less than half of the recipe's 32.* Choose 36 or 38, or"),
        (33, (), "passes of 11 at most.* Choose 32 or 34, or .* --set train.batch_size=33"),
        # 1020 = 34 × 30, 1022 = 2 · 7 · 73 = 73 × 14, 1023 = 33 × 31
        (1021, (), "passes of 1 at most.* Choose 1020 or 1023, or"),
        (74, ("ensemble.workers=2",), "Choose 72 or 76, or .* --set train.batch_size=37"),
    ],
)
def test_a_batch_whose_passes_would_be_tiny_is_refused_with_its_neighbours(
    batch: int, settings: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        passes_of(batch, base(*settings))


def test_a_batch_below_the_recipes_is_one_pass_and_the_table_has_the_samples_per_pass() -> None:
    assert passes_of(5, base()) == (5, 1)
    (small, large) = LARGE_BATCH.points(Request(HERE, base(), {"batch": (5, 48), "rule": ("linear",)}))
    table = LARGE_BATCH.analyse(outcomes(PointOutcomes(small), PointOutcomes(large)))
    assert [row["samples_per_pass"] for row in table.rows] == [5, 24]


def test_points_are_all_rules_times_batches_with_the_reference_batch_of_the_recipe() -> None:
    points = LARGE_BATCH.points(Request(HERE, base()))
    assert len(points) == len(RULES) * 4
    assert [each.at["batch"] for each in points[:4]] == [32, 128, 512, 1024]
    assert all("train.reference_batch_size" not in each.settings for each in points)
    full = Request(HERE, base("size=full", "data.path=images"))
    assert LARGE_BATCH.axis("batch").values(full) == (256, 1024, 4096, 8192, 14336)
    few = LARGE_BATCH.points(Request(HERE, base(), is_smallest=True))
    assert [each.at for each in few] == [
        {"rule": rule, "batch": batch} for rule in ("linear", "lars") for batch in (32, 512)
    ]
