"""The study of schedules: learning rates at written-out epochs, without runs; loss and quality from events."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.written_outcomes import point
from trainmark.plan.explain import Source
from trainmark.report.plots import quality_over_epochs
from trainmark.report.study_page import study_page
from trainmark.spec.errors import ConfigError, PlanError
from trainmark.spec.events import EpochStop, Evaluation, Steps
from trainmark.spec.run_folder import Places
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.studies.axes import parse_values
from trainmark.studies.conduct import Watching
from trainmark.studies.make import Asked, make_study, write_study
from trainmark.studies.outcomes import Outcomes
from trainmark.studies.preview import expected_seconds, preview_lines
from trainmark.studies.publish import analyse, conduct_and_publish, fail_unless_whole, published
from trainmark.studies.record import read_study
from trainmark.studies.schedules import SCHEDULES, loss_of
from trainmark.studies.stored_outcomes import outcomes_of

TWO_CORES = Site(name="two", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
# 90 epochs of ten steps with a batch of 32 samples; the rate is 0.1 at this batch.
NINETY = {
    "dataset": "synthetic",
    "data": {"num_train": 320},
    "train": {"epochs": 90, "batch_size": 32, "learning_rate": 0.1, "warmup_epochs": 0.0, "decay_at": "30,60,80"},
}


def computed(*names: str, **train: Any) -> Outcomes:
    base = {**NINETY, "train": {**NINETY["train"], **train}}  # type: ignore[dict-item]
    return Outcomes((), axes={"schedule": names, "train": ("no",)}, base=base, site=TWO_CORES)


def rates(name: str, **train: Any) -> dict[float, float]:
    """The rate by epoch."""
    epochs, found = SCHEDULES.analyse(computed(name, **train)).facts["rates"][name]
    return {round(epoch, 6): rate for epoch, rate in zip(epochs, found, strict=True)}


def test_step_falls_tenfold_at_epochs_30_60_and_80() -> None:
    found = rates("step")
    assert len(found) == 900
    at = [0.0, 29.9, 30.0, 59.9, 60.0, 79.9, 80.0, 89.9]
    assert [found[epoch] for epoch in at] == pytest.approx([0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4])


def test_cosine_is_at_half_its_peak_in_the_middle_and_polynomial_falls_to_zero() -> None:
    # (1 + cos(π/3)) / 2 = 3/4 after a third, 1/4 after two.
    cosine = rates("cosine")
    assert [cosine[epoch] for epoch in (0.0, 30.0, 45.0, 60.0)] == pytest.approx([0.1, 0.075, 0.05, 0.025])
    polynomial = rates("polynomial", decay_power=2.0)
    # The share left, squared; one step is left at the end: (1 / 900)².
    assert [polynomial[epoch] for epoch in (0.0, 45.0, 89.9)] == pytest.approx([0.1, 0.025, 0.1 / 810_000])


def test_cyclic_falls_to_its_floor_and_rises_again_after_warm_up() -> None:
    found = rates("cyclic", warmup_epochs=5.0, cycle_epochs=30.0, cycle_floor=0.1)
    at = [4.9, 5.0, 20.0, 35.0, 50.0, 65.0, 80.0]
    assert [found[epoch] for epoch in at] == pytest.approx([0.1, 0.1, 0.01, 0.1, 0.01, 0.1, 0.01])


def test_warm_up_is_gradual_or_constant_and_the_last_tenth_collapses() -> None:
    # A batch eight times the reference: the peak is 0.8.
    scaled = {"reference_batch_size": 4, "warmup_epochs": 5.0, "schedule": "constant"}
    gradual, constant = rates("constant", **scaled), rates("constant-warmup", **scaled)
    assert [gradual[epoch] for epoch in (0.0, 2.4, 4.9, 5.0)] == pytest.approx([0.016, 0.4, 0.8, 0.8])
    assert [constant[epoch] for epoch in (0.0, 2.4, 4.9, 5.0)] == pytest.approx([0.1, 0.1, 0.1, 0.8])
    # Nine epochs, 90 steps: quadratic to zero.
    collapsed = rates("collapsed", **scaled)
    assert [collapsed[epoch] for epoch in (80.9, 81.0, 85.5)] == pytest.approx([0.8, 0.8, 0.2])


def test_long_trainings_are_drawn_at_two_thousand_steps() -> None:
    found = computed("cosine")
    found = replace(found, base={**found.base, "data": {"num_train": 1_281_167}})
    epochs, _ = SCHEDULES.analyse(found).facts["rates"]["cosine"]
    assert len(epochs) == 2000 and epochs[-1] == pytest.approx(90, abs=0.001)


def test_without_training_there_are_no_runs_and_everything_says_so(tmp_path: Path) -> None:
    asked = Asked([Source("flags", NINETY)])
    record = make_study(SCHEDULES, asked, TWO_CORES, Places.of(tmp_path))
    assert record.points == () and record.runs == ()
    assert preview_lines(record) == ["schedules: no runs: computed from the settings"]
    assert expected_seconds(record) == (0, 0)
    folder = write_study(record, TWO_CORES, tmp_path)
    outcomes, table = conduct_and_publish(folder, Watching(None, None, None))  # type: ignore[arg-type]
    fail_unless_whole(folder, [outcomes])
    assert table.caption.endswith(", 90 epochs; no runs: computed from the settings")
    assert [row["schedule"] for row in table.rows] == [
        *("constant", "step", "polynomial", "cosine", "cyclic", "collapsed", "constant-warmup")
    ]
    assert {path.name for path in published(folder)} == {"report.html", "schedules.pdf", "schedules.svg", "table.csv"}
    section = analyse(folder, read_study(folder), outcomes_of(folder, record))
    assert ("runs", "none: computed from the settings") in section.facts
    assert "no run has a Result" not in study_page([section])


def test_the_figure_has_schedules_beside_the_variants_of_the_recipes_own() -> None:
    table = SCHEDULES.analyse(computed("step", "cosine", "collapsed"))
    (figure,) = SCHEDULES.figures(table)
    assert figure.svg is not None
    assert [[curve.label for curve in plot.curves] for plot in figure.rows[0]] == [["step", "cosine"], ["collapsed"]]
    assert table.rows[0]["highest_rate"] == pytest.approx(0.1) and table.rows[0]["last_rate"] == pytest.approx(1e-4)


def test_if_asked_each_schedule_is_trained_once(tmp_path: Path) -> None:
    asked = Asked(axes={"schedule": ("step", "collapsed"), "train": ("yes",)})
    record = make_study(SCHEDULES, asked, TWO_CORES, Places.of(tmp_path))
    assert [planned.point.label for planned in record.points] == ["schedule=step", "schedule=collapsed"]
    assert record.points[0].point.settings == {"ensemble.members": 1, "train.schedule": "step"}
    assert record.points[1].point.settings["train.collapse_epochs"] == pytest.approx(0.6)
    assert len(record.runs) == 2


def test_loss_is_averaged_over_tenths_of_an_epoch_and_quality_stands_where_it_was_evaluated() -> None:
    events = [
        Steps(wall_s=1, first_step=0, step_s=[1] * 20, wait_s=[0] * 20, loss=[4.0, 2.0] * 9 + [None, 3.0]),
        EpochStop(wall_s=2, epoch=0, next_step=20, samples=640, steps_per_epoch=20, epoch_s=20, harness_s=0),
        Evaluation(wall_s=3, epoch=0, quality=0.5),
    ]
    epochs, losses = loss_of(events)
    assert epochs == pytest.approx([0.05 + 0.1 * tenth for tenth in range(10)])
    assert losses == [3.0] * 10
    assert quality_over_epochs(events) == ([1.0], [0.5])
    assert loss_of([]) == ([], []) and quality_over_epochs([]) == ([], [])


def test_trained_schedules_have_their_quality_in_the_table_and_gaps_stay_gaps() -> None:
    points = (
        point({"schedule": "step"}, [{"quality_member_mean": 0.75}]),
        point({"schedule": "cosine"}, ["failed: rank 0 failed: no such file"]),
        point({"schedule": "constant"}, [{"quality_member_mean": 0.6}]),
    )
    table = SCHEDULES.analyse(replace(computed("step", "cosine", "constant"), points=points))
    assert [row["quality_member_mean"] for row in table.rows] == [0.75, None, 0.6]
    assert table.findings[-1] == (
        "cannot tell which is best in quality: step (0.75) has 1.25 (single run) times that of constant (0.6)"
    )
    assert table.rows[1]["note"] == "failed: rank 0 failed: no such file"
    assert len(SCHEDULES.figures(table)) == 2


def test_a_name_that_an_axis_has_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"--schedule has no 'cosin'\. Did you mean 'cosine'\? Choose from: constant"):
        parse_values(SCHEDULES.axis("schedule"), "step,cosin")


def test_a_training_that_the_data_do_not_suffice_for_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    sources = [Source("flags", {**NINETY, "data": {"num_train": 16}})]
    with pytest.raises(PlanError, match="the member's bootstrap has 16"):
        make_study(SCHEDULES, Asked(sources), TWO_CORES, Places.of(tmp_path))
    assert list(tmp_path.iterdir()) == []
