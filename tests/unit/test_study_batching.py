"""`batching` on written-out results: differences within seeds, verdicts, pixels, curves from events, and gaps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.run_events import as_lines
from tests.unit.test_studies import HERE
from tests.unit.written_outcomes import DIVERGED, MISSED, outcomes, result
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.report.drawing import Plot
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.table import Table
from trainmark.studies.batching import BATCHING, learning_of
from trainmark.studies.outcomes import Outcome, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Request

QUALITIES = (0.70, 0.80, 0.75, 0.78, 0.72)  # of random batches, by seed


def run(number: int, quality: float, epoch_s: float, total_mp: float = 40.0, steps: int = 384) -> Outcome:
    """A run of eight epochs on 10 informative megapixels."""
    pixels = {"total_megapixels": total_mp, "informative_megapixels": 10.0}
    figures = {
        "quality_ensemble": quality,
        "epoch_time_s": epoch_s,
        "time_to_train_all_s": 8 * epoch_s + 1,
        "padding_ratio": total_mp / 10,
        "megapixels_per_step": total_mp / steps,
        "time_to_target_s": 5 * epoch_s if quality >= 0.75 else MISSED,
        "epochs_to_target": 5.0 if quality >= 0.75 else MISSED,
    }
    found = result(figures, {"padding_ratio": pixels})
    of_steps = found.metrics["megapixels_per_step"].model_copy(update={"n": steps})
    return Outcome(
        number, f"r{number}", found.model_copy(update={"metrics": {**found.metrics, "megapixels_per_step": of_steps}})
    )


def strategy(name: str, changes: tuple[float, ...], epoch_s: tuple[float, ...], **other: Any) -> PointOutcomes:
    runs = [
        run(number, quality + change, seconds, **other)
        for number, (quality, change, seconds) in enumerate(zip(QUALITIES, changes, epoch_s, strict=False), 1)
    ]
    return PointOutcomes(Point(at={"batching": name}), tuple(runs))


def written_table() -> Table:
    # The third round was slow as a whole: ratios within rounds do not see it.
    return BATCHING.analyse(
        outcomes(
            strategy("random", (0,) * 5, (2.0, 2.0, 4.0, 2.0, 2.0)),
            strategy("nearest", (-0.02, -0.05, -0.03, -0.01, -0.02), (1.0, 1.0, 2.0, 1.0, 1.0), total_mp=11.0),
            strategy("pixels", (0.01, -0.02, 0.03, 0.0, -0.01), (1.5, 2.5, 4.0, 1.8, 2.2), steps=400),
        )
    )


def test_quality_and_time_are_compared_with_random_batches_of_the_same_seed() -> None:
    random, nearest, _ = written_table().rows
    # Median (smallest – largest) of five differences, not the difference of medians: 0.73 − 0.75 is the same here.
    assert [nearest[f"quality_over_random{end}"] for end in ("_low", "", "_high")] == pytest.approx(
        [-0.05, -0.02, -0.01]
    )
    assert [nearest[f"epoch_time_over_random{end}"] for end in ("_low", "", "_high")] == pytest.approx([0.5] * 3)
    assert (random["quality_over_random"], random["epoch_time_over_random"], random["n"]) == (0, 1, 5)
    assert (random["quality_ensemble"], random["epoch_time_s"]) == (0.75, 2.0)


def test_rows_have_pixels_updates_and_time() -> None:
    random, nearest, pixels = written_table().rows
    assert (random["total_megapixels"], random["informative_megapixels"], random["padding_ratio"]) == (40, 10, 4)
    assert (nearest["total_megapixels"], nearest["padding_ratio"], nearest["updates"]) == (11, 1.1, 384)
    assert (pixels["updates"], pixels["time_to_train_all_s"]) == (400, pytest.approx(8 * 2.2 + 1))
    # Three of five seeds reach 0.75 with random batches, in 10, 20 and 10 s; two never do.
    assert (random["reached_target"], random["time_to_target_s"]) == (3, 20)


def test_what_lies_within_the_noise_of_the_seeds_cannot_be_told() -> None:
    assert written_table().findings == (
        "nearest: quality is lower than that of random: -0.02 (-0.05 to -0.01); an epoch takes 0.5 (0.5 to 0.5) of "
        "the time",
        "pixels: cannot tell whether it learns other than random: quality differs by 0 (-0.02 to 0.03); cannot tell "
        "whether it is faster: an epoch takes 1 (0.75 to 1.25) of the time",
    )


def test_few_seeds_are_no_verdict_and_without_random_batches_there_is_none() -> None:
    one = [strategy(name, (change,), (2.0,)) for name, change in (("random", 0.0), ("aspect", 0.01))]
    assert BATCHING.analyse(outcomes(*one)).findings == (
        "aspect: cannot tell whether it learns other than random: quality differs by 0.01 (single run); cannot tell "
        "whether it is faster: an epoch takes 1 (single run) of the time",
    )
    alone = BATCHING.analyse(outcomes(one[1]))
    assert alone.findings == () and "nothing to compare with" in str(alone.rows[0]["note"])


def test_a_strategy_that_diverged_counts_as_the_lowest_quality() -> None:
    diverged = PointOutcomes(
        Point(at={"batching": "singles"}), (run(1, 0.7, 1.0), Outcome(2, "r2", reason=DIVERGED), run(3, 0.6, 1.0))
    )
    (row,) = BATCHING.analyse(outcomes(diverged)).rows
    assert (row["quality_ensemble"], row["quality_ensemble_low"]) == (0.6, 0.6)
    assert "1 of 3 runs diverged" in str(row["note"])


def test_quality_is_drawn_over_the_time_in_epochs_by_strategy(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    path = folder.attempt(0, 1).rank_events(0)
    path.parent.mkdir(parents=True)
    stop = {"kind": "epoch_stop", "samples": 8, "steps_per_epoch": 1, "harness_s": 0.0}
    lines = [
        event
        for epoch, (seconds, quality) in enumerate(((3.0, 0.2), (2.0, 0.5)))
        for event in (
            {**stop, "epoch": epoch, "next_step": epoch + 1, "epoch_s": seconds},
            {"kind": "evaluation", "epoch": epoch, "quality": quality},
        )
    ]
    path.write_text(as_lines(*lines))
    point = strategy("random", (0.0,), (2.0,))
    (found,) = point.runs
    assert found.result is not None
    member = found.result.members[0].model_copy(update={"member": 0, "attempts": 1, "restarted": False})
    stored = replace(found, folder=folder, result=found.result.model_copy(update={"members": [member]}))
    assert learning_of(stored) == ([3.0, 5.0], [0.2, 0.5])
    restarted = member.model_copy(update={"restarted": True})  # whose first epochs are not in these events
    assert learning_of(replace(stored, result=found.result.model_copy(update={"members": [restarted]}))) is None
    table = BATCHING.analyse(outcomes(replace(point, runs=(stored,))))
    _, over_time = BATCHING.figures(Table.model_validate_json(table.as_json()))
    plot: Any = over_time.rows[0][0]
    (curve,) = plot.curves
    assert (curve.label, curve.x.tolist(), curve.y.tolist()) == ("random", [3.0, 5.0], [0.2, 0.5])
    assert [(line.label, line.y) for line in plot.references] == [("target", 0.8)]


def test_differences_and_times_are_bars_by_strategy() -> None:
    first, over_time = BATCHING.figures(written_table())
    change, time = (plot for plot in first.rows[0] if isinstance(plot, Plot))
    assert change.bars[0].names == time.bars[0].names == ("random", "nearest", "pixels")
    assert change.bars[0].y.tolist() == pytest.approx([0, -0.02, 0])
    assert time.bars[0].y.tolist() == pytest.approx([2.0, 1.0, 2.2])
    assert over_time.svg is None  # there are no events


def test_rounds_are_seeds_and_full_size_is_the_medium_resolution_of_artworks() -> None:
    def points(*settings: str) -> list[Point]:
        return BATCHING.points(Request(HERE, resolve_config([parse_setting(each) for each in settings])))

    tiny = points("workload=artworks")
    assert [point.settings for point in tiny] == [
        {"train.batching": name} for name in ("random", "aspect", "size", "nearest", "pixels", "singles")
    ]
    full = points("size=full", "dataset=artworks", "data.path=/data/MAMe")
    assert {(point.settings["workload"], point.settings["size"]) for point in full} == {("artworks", "mr")}
    own = points("size=full", "dataset=imagenet", "data.resize=none", "data.path=/data/photos")
    assert all(set(point.settings) == {"train.batching"} for point in own)
