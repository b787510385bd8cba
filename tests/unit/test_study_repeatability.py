"""`repeatability` on written-out results: variation over seeds, targets reached, and curves from events."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.run_events import as_event
from tests.unit.test_report_page import written_events
from tests.unit.test_studies import HERE
from tests.unit.written_outcomes import DIVERGED, MISSED, outcomes, point
from trainmark.plan.resolve import resolve_config
from trainmark.report.plots import quality_over_epochs
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.table import Table
from trainmark.studies.outcomes import PointOutcomes
from trainmark.studies.repeatability import REPEATABILITY, evaluations_of, variation
from trainmark.studies.study import Request

QUALITY, EPOCHS, TIME = "quality_ensemble", "epochs_to_target", "time_to_target_s"
SPEED = "throughput_samples_per_s"


def seed(number: int, quality: float, epochs: float | None, speed: float = 100.0) -> PointOutcomes:
    """A seed that takes 2 s per epoch."""
    to_target = {EPOCHS: MISSED, TIME: MISSED} if epochs is None else {EPOCHS: epochs, TIME: 2 * epochs}
    return point({"seed": number}, [{QUALITY: quality, SPEED: speed, **to_target}])


def written_table() -> Table:
    return REPEATABILITY.analyse(outcomes(seed(1, 0.80, 4), seed(2, 0.90, 6, 120.0), seed(3, 0.70, None)))


def test_variation_is_range_median_and_deviation_over_mean() -> None:
    # Mean 4, deviations −2, 0, 2: variance 8/2 = 4, so 2/4.
    assert variation([2.0, None, 4.0, 6.0]) == (2.0, 4.0, 6.0, 0.5, 3)
    assert variation([3.0]) == (3.0, 3.0, 3.0, None, 1)
    assert variation([None]) is None


def test_findings_have_the_variation_of_every_figure_and_how_many_runs_reached_the_target() -> None:
    found = written_table().findings
    assert found[0] == "2 of 3 runs reached the target 0.8"
    # Quality: deviation 0.1 over mean 0.8; epochs: deviation √2 over mean 5.
    assert any("0.7 to 0.9, median 0.8, coefficient of variation 12.5 % (n = 3)" in each for each in found)
    epochs = "4 epochs to 6 epochs, median 5 epochs, coefficient of variation 28.3 % (n = 2)"
    assert f"epochs to target of the runs that reached it: {epochs}" in found
    assert any(each.startswith("throughput: ") and each.endswith("spread 20% is above 10%") for each in found)


def test_each_seed_has_a_row_and_one_that_misses_the_target_a_gap_with_the_reason() -> None:
    first, _, missed = written_table().rows
    assert (first["seed"], first[QUALITY], first[EPOCHS], first[TIME]) == (1, 0.8, 4.0, 8.0)
    assert (missed[EPOCHS], missed["reached_target"]) == (None, 0.0)
    assert str(missed["note"]).startswith("target missed by 1 of 1 run: ")


def test_stairs_rise_where_runs_reach_the_target_and_end_below_one_if_some_miss_it() -> None:
    _, reached = REPEATABILITY.figures(written_table())
    assert reached.svg is not None
    over_epochs: Any = reached.rows[0][0]
    (stairs,) = over_epochs.curves
    assert stairs.shape == "stairs"
    # Up to epoch 4 no run, from then one of three, from epoch 6 two.
    assert stairs.x.tolist() == pytest.approx([0, 4, 6, 6.6])
    assert stairs.y.tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3])


RESTARTED = "member 0 was restarted from a checkpoint, and may have reached the target before it"


def unknown(number: int) -> PointOutcomes:
    return point({"seed": number}, [{QUALITY: 0.8, EPOCHS: RESTARTED, TIME: RESTARTED}])


def test_runs_of_which_it_is_not_known_count_neither_way_and_those_that_diverged_missed_the_target() -> None:
    diverged = point({"seed": 5}, [DIVERGED])
    table = REPEATABILITY.analyse(outcomes(seed(1, 0.8, 4), seed(2, 0.9, 6), seed(3, 0.7, None), unknown(4), diverged))
    assert table.findings[0] == "2 of 4 runs reached the target 0.8; unknown for 1 more"
    over_epochs: Any = REPEATABILITY.figures(table)[1].rows[0][0]
    assert over_epochs.curves[0].y.tolist() == pytest.approx([0, 0, 1 / 4, 2 / 4])


def test_without_a_run_of_which_it_is_known_there_is_no_sentence_and_no_stairs() -> None:
    table = REPEATABILITY.analyse(outcomes(unknown(1), unknown(2)))
    assert not any("reached" in finding for finding in table.findings)
    assert REPEATABILITY.figures(table)[1].svg is None


def test_quality_over_epochs_is_read_from_the_events_and_kept_in_the_table(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    events = folder.attempt(0, 1).rank_events(0)
    events.parent.mkdir(parents=True)
    lines = [event.model_dump_json() for event in written_events()]
    events.write_text("\n".join(lines) + "\n")
    one = seed(7, 0.75, 2)
    (run,) = one.runs
    assert run.result is not None
    of_member_0 = run.result.members[0].model_copy(update={"member": 0, "attempts": 1})
    stored = replace(run, folder=folder, result=run.result.model_copy(update={"members": [of_member_0]}))
    # Evaluations after both epochs: 0.25 and 0.75.
    assert evaluations_of(stored) == [([1, 2], [0.25, 0.75])]
    table = REPEATABILITY.analyse(outcomes(replace(one, runs=(stored,))))
    assert table.facts["evaluations"] == [{"seed": 7, "epochs": [1, 2], "quality": [0.25, 0.75]}]
    quality, _ = REPEATABILITY.figures(Table.model_validate_json(table.as_json()))
    assert quality.svg is not None
    plot: Any = quality.rows[0][0]
    assert [(curve.label, curve.y.tolist()) for curve in plot.curves] == [("seed 7", [0.25, 0.75])]
    assert [(line.label, line.y) for line in plot.references] == [("target", 0.8)]


def test_an_epoch_that_was_cut_short_counts_as_its_part() -> None:
    stop = as_event(
        kind="epoch_stop", epoch=1, next_step=15, samples=50, steps_per_epoch=10, epoch_s=1.0, harness_s=0.0
    )
    events = [stop, as_event(kind="evaluation", epoch=1, quality=0.5)]
    assert quality_over_epochs(events) == ([1.5], [0.5])


def test_figures_of_failed_runs_alone_say_so() -> None:
    table = REPEATABILITY.analyse(outcomes(point({"seed": 1}, ["stopped"])))
    assert table.findings == ()
    assert [drawn.svg for drawn in REPEATABILITY.figures(table)] == [None, None]


def test_each_point_is_a_seed() -> None:
    request = Request(HERE, resolve_config([]), {"seeds": (3, 4)})
    assert [each.settings["seed"] for each in REPEATABILITY.points(request)] == [3, 4]
    assert REPEATABILITY.axis("seeds").values(Request(HERE, resolve_config([]))) == (1, 2, 3, 4, 5)
