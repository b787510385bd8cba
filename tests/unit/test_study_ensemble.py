"""The study `ensemble`: qualities of subsets and disagreement, known from predictions written out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.written_events import written_member, written_run
from tests.unit.written_outcomes import outcomes, result
from trainmark.collect.measured import Measured
from trainmark.collect.subsets import choose_subsets, disagreements, qualities_of_subsets
from trainmark.report.bars import HeatMap
from trainmark.report.drawing import Plot
from trainmark.spec.table import Table
from trainmark.studies.ensemble import ENSEMBLE, table_of
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.workloads.quality.map50 import Map50

# Four held-out samples, all of class 0: the probability of class 0 that each of three members gives.
SURE = ([0.9, 0.9, 0.9, 0.4], [0.7, 0.3, 0.3, 0.9], [0.2, 0.8, 0.4, 0.9])


def predictions(of_class_0: list[float], out_of_bag: dict[int, float]) -> dict[str, Any]:
    """Predictions of held-out samples of class 0, and of out-of-bag samples of class 0 by their number."""
    both = [[p, 1 - p] for p in of_class_0]
    return {
        "eval_predictions": np.array(both, np.float32),
        "eval_labels": np.zeros(len(both), np.int64),
        "oob_indices": np.array(list(out_of_bag), np.int64),
        "oob_predictions": np.array([[p, 1 - p] for p in out_of_bag.values()], np.float32).reshape(-1, 2),
        "oob_labels": np.zeros(len(out_of_bag), np.int64),
    }


def run_of_three(**changes: Any) -> Measured:
    out_of_bag = ({0: 0.9, 1: 0.1}, {1: 0.8, 2: 0.3}, {1: 0.7, 3: 0.6})
    parts = zip(SURE, out_of_bag, strict=True)
    members = [written_member(n, predictions=predictions(*each)) for n, each in enumerate(parts)]
    return written_run(*members, **changes)


def three_members(**metrics: float) -> Outcomes:
    run = Outcome(1, "r1", result(metrics or {"quality_ensemble": 1.0}, members=3))
    return outcomes(PointOutcomes(Point(at={"members": 3}), (run,)))


def table(measured: Measured | str | None = None) -> Table:
    return table_of(three_members(), {"r1": run_of_three() if measured is None else measured})


def test_a_subset_has_the_quality_of_the_mean_of_its_members_probabilities() -> None:
    found = qualities_of_subsets(run_of_three(), seed=1)
    assert not isinstance(found, str)
    # Alone: the samples above 0.5.
    assert [(each.members, each.quality) for each in found[1]] == [((0,), 0.75), ((1,), 0.5), ((2,), 0.5)]
    # Means of 0 and 1: 0.8, 0.6, 0.6, 0.65; of 0 and 2: 0.55, 0.85, 0.65, 0.65; of 1 and 2: 0.45, 0.55, 0.35, 0.9.
    assert [(each.members, each.quality) for each in found[2]] == [((0, 1), 1.0), ((0, 2), 1.0), ((1, 2), 0.5)]
    # Of all: 0.6, 0.667, 0.533, 0.733.
    assert [each.quality for each in found[3]] == [1.0]


def test_out_of_bag_samples_are_predicted_by_the_members_of_the_subset_alone() -> None:
    found = qualities_of_subsets(run_of_three(), seed=1)
    assert not isinstance(found, str)
    assert [each.out_of_bag for each in found[1]] == [0.5, 0.5, 1.0]
    # 0 and 1: samples 0 (0.9), 1 (mean of 0.1 and 0.8), 2 (0.3): one of three. 0 and 2: 0.9, 0.4, 0.6: two of three.
    # 1 and 2: samples 1 (0.75), 2 (0.3), 3 (0.6): two of three.
    assert [each.out_of_bag for each in found[2]] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    # All: 0.9, mean of 0.1, 0.8 and 0.7 (0.533), 0.3, 0.6: three of four.
    assert [each.out_of_bag for each in found[3]] == [0.75]


def test_two_members_disagree_on_the_samples_that_they_put_into_different_classes() -> None:
    found = disagreements(run_of_three())
    assert not isinstance(found, str)
    # Classes: 0 0 0 1, 0 1 1 0 and 1 0 1 0: the first differs from the others in three, they from another in two.
    assert found.tolist() == [[0, 0.75, 0.75], [0.75, 0, 0.5], [0.75, 0.5, 0]]
    subsets = qualities_of_subsets(run_of_three(), seed=1)
    assert not isinstance(subsets, str)
    assert subsets[3][0].disagreement == pytest.approx((0.75 + 0.75 + 0.5) / 3)
    assert subsets[1][0].disagreement == "not applicable: one member"


def test_detections_have_no_disagreement_and_say_why() -> None:
    measured = Measured(run_of_three().config, run_of_three().plan, Map50, run_of_three().members)
    assert disagreements(measured) == "not applicable: detection has no top-1 prediction per sample"


def test_few_subsets_are_all_taken_and_many_are_sampled_without_repeats_from_the_seed() -> None:
    assert choose_subsets(3, 2, seed=1) == [(0, 1), (0, 2), (1, 2)]
    assert len(choose_subsets(8, 3, seed=1, most=56)) == 56  # 8 choose 3
    sampled = choose_subsets(8, 4, seed=1)  # of 70
    assert len(set(sampled)) == len(sampled) == 50
    assert all(len(set(each)) == 4 and max(each) < 8 for each in sampled)
    assert sampled == choose_subsets(8, 4, seed=1) != choose_subsets(8, 4, seed=2)


def test_the_table_has_a_row_per_number_of_members_with_median_and_ends() -> None:
    rows = table().rows
    assert [(row["trained"], row["members"], row["subsets"]) for row in rows] == [(3, 1, 3), (3, 2, 3), (3, 3, 1)]
    first, last = rows[0], rows[-1]
    assert (first["quality_ensemble"], first["quality_ensemble_low"], first["quality_ensemble_high"]) == (
        0.5,
        0.5,
        0.75,
    )
    assert (last["quality_ensemble"], last["gain_points"], last["quality_out_of_bag"]) == (1.0, 50.0, 0.75)
    assert first["disagreement"] is None and last["disagreement"] == pytest.approx(2 / 3)
    assert table().findings == (
        "3 of 3 members reach 1, +50 points against one member (0.5), in a single run",
        "two members disagree on 66.7 % of the held-out samples",
    )


def test_repeats_pool_their_subsets() -> None:
    runs = tuple(Outcome(n, f"r{n}", result({"quality_ensemble": 1.0}, members=3)) for n in (1, 2))
    found = table_of(
        outcomes(PointOutcomes(Point(at={"members": 3}), runs)), {"r1": run_of_three(), "r2": run_of_three()}
    )
    assert [row["subsets"] for row in found.rows] == [6, 6, 2]
    assert [row["n"] for row in found.rows] == [2, 2, 2]


def test_a_run_without_out_of_bag_predictions_says_why() -> None:
    found = table(run_of_three(evaluate={"out_of_bag": False}))
    assert not found.has("quality_out_of_bag") and found.has("quality_ensemble")
    assert "out-of-bag quality is unavailable: not measured: evaluate.out_of_bag is false" in found.findings


def test_members_with_lost_predictions_are_left_out() -> None:
    def lost() -> dict[str, Any]:
        raise FileNotFoundError

    members = run_of_three().members
    found = table(written_run(*members[:2], replace(members[2], load_predictions=lost)))
    assert [row["members"] for row in found.rows] == [1, 2]
    assert found.findings[0].startswith("2 of 3 members reach 1,")


def test_a_run_that_cannot_be_read_or_failed_is_a_gap() -> None:
    unread = table("config.toml is damaged")
    assert [(row["members"], row["quality_ensemble"]) for row in unread.rows] == [(3, None)]
    assert unread.findings == ("r1 cannot be read: config.toml is damaged",)
    failed = PointOutcomes(Point(at={"members": 3}), (Outcome(1, "r1", reason="killed"),))
    found = table_of(outcomes(failed), {"r1": "killed"})
    assert [(row["n"], row["note"]) for row in found.rows] == [(0, "killed")]
    (drawn,) = ENSEMBLE.figures(found)
    assert drawn.svg is None


def test_the_figure_has_both_qualities_with_the_target_and_the_pairs() -> None:
    (drawn,) = ENSEMBLE.figures(Table.model_validate_json(table().as_json()))
    ((quality, cells),) = drawn.rows
    assert isinstance(quality, Plot) and isinstance(cells, HeatMap)
    held_out, out_of_bag = quality.curves
    assert (held_out.label, held_out.x.tolist(), held_out.y[-1]) == ("held out", [1, 2, 3], 1.0)
    assert (out_of_bag.label, out_of_bag.y[-1]) == ("out of bag", 0.75)
    assert [(each.label, each.y) for each in quality.references] == [("target quality", 0.8)]
    assert cells.values[0, 1:].tolist() == [75, 75] and np.isnan(cells.values[0, 0])
    assert drawn.svg is not None
