"""The study of optimisations: which points, and their analysis on written-out results."""

import os
from pathlib import Path

import pytest

from tests.unit.written_outcomes import Figures, outcomes, point
from trainmark.plan.explain import Source
from trainmark.plan.resolve import resolve_config
from trainmark.spec.config import Setting
from trainmark.spec.run_folder import Places
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.studies.make import Asked, make_study
from trainmark.studies.optimisations import OPTIMISATIONS
from trainmark.studies.outcomes import Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Request

SPEED, QUALITY = "throughput_samples_per_s", "quality_ensemble"
TWO_CORES = Site(name="two", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
HERE = Site(name="here", groups=(NodeGroup(slots=(Slot(cores=(min(os.sched_getaffinity(0)),)),)),))
ONE_GPU = Site(name="gpu", groups=(NodeGroup(slots=(Slot(cores=(0, 1), accelerator=0),)),))
OLD_GPU = Site(name="old", groups=(NodeGroup(slots=(Slot(cores=(0,), accelerator=0),), bf16=False),))


def points(site: Site, **given: tuple[Setting, ...]) -> list[Point]:
    base = resolve_config([Source("test", {"workload": "image-classification", "size": "tiny"})])
    axes = {name.replace("_", "-"): values for name, values in given.items()}
    return OPTIMISATIONS.points(Request(site, base, axes))


def at(found: list[Point]) -> list[tuple[Setting, ...]]:
    return [tuple(each.at.values()) for each in found]


def test_two_slots_of_a_cpu_give_two_workers_and_both_formats_of_communication() -> None:
    found = points(TWO_CORES)
    assert at(found) == [
        ("fp32", "fp32", 2, 32),
        ("bf16-mixed", "fp32", 2, 32),
        ("fp32", "fp16", 2, 32),
        ("bf16-mixed", "fp16", 2, 32),
    ]
    assert [each.is_default for each in found] == [True, False, False, False]
    assert found[3].settings == {
        "train.precision": "bf16-mixed",
        "train.communication_precision": "fp16",
        "ensemble.workers": 2,
        "train.batch_size": 32,
    }


def test_one_accelerator_takes_its_four_precisions_over_all_batches_and_sends_nothing() -> None:
    found = points(ONE_GPU, batch=(32, 512))
    assert at(found) == [
        (precision, "fp32", 1, batch)
        for batch in (32, 512)
        for precision in ("fp32", "tf32", "bf16-mixed", "fp16-mixed")
    ]
    assert {each.at["precision"] for each in found if each.is_default} == {"bf16-mixed"}
    assert {each.at["precision"] for each in points(OLD_GPU) if each.is_default} == {"fp16-mixed"}


def test_one_worker_has_fp32_communication_alone_unless_only_others_are_asked_for() -> None:
    found = points(TWO_CORES, workers=(1, 2), precision=("fp32",))
    assert at(found) == [("fp32", "fp32", 1, 32), ("fp32", "fp32", 2, 32), ("fp32", "fp16", 2, 32)]
    alone = points(TWO_CORES, workers=(1,), precision=("fp32",), communication_precision=("fp16",))
    assert at(alone) == [("fp32", "fp16", 1, 32)]  # the plan says why it cannot run


def test_a_precision_that_the_machine_lacks_is_a_gap_with_its_reason(tmp_path: Path) -> None:
    axes = {"precision": ("fp32", "tf32")}
    record = make_study(OPTIMISATIONS, Asked(axes=axes), HERE, Places.of(tmp_path))
    assert [planned.refused for planned in record.points] == [
        None,
        "tf32 needs GPUs, but the site has none. Choose --set train.precision=fp32.",
    ]


def measured(precision: str, wire: str, batch: int, *rounds: Figures | str, default: bool = False) -> PointOutcomes:
    found = point({"precision": precision, "communication": wire, "workers": 2, "batch": batch}, rounds)
    return PointOutcomes(found.point.model_copy(update={"is_default": default}), found.runs)


def of_one_batch() -> Outcomes:
    """The machine is half as fast in the second round; mixed precision 1.9 ×, fp16 on the wire 1.2 × in each."""
    speeds = {("fp32", "fp32"): 100, ("fp16-mixed", "fp32"): 190, ("fp32", "fp16"): 120, ("fp16-mixed", "fp16"): 190}
    qualities = {"fp32": (0.75, 0.77), "fp16-mixed": (0.745, 0.765)}
    return outcomes(
        *(
            measured(
                precision,
                wire,
                64,
                *(
                    {
                        SPEED: speed / slow,
                        QUALITY: quality,
                        "communication_bytes_per_step": 400 if wire == "fp32" else 200,
                    }
                    for slow, quality in zip((1, 2), qualities[precision], strict=True)
                ),
                default=(precision, wire) == ("fp16-mixed", "fp32"),
            )
            for (precision, wire), speed in speeds.items()
        )
    )


def test_speed_and_quality_are_compared_with_fp32_within_rounds() -> None:
    table = OPTIMISATIONS.analyse(of_one_batch())
    assert [row["speedup"] for row in table.rows] == pytest.approx([1.0, 1.9, 1.2, 1.9])
    assert [row["communication_speedup"] for row in table.rows] == pytest.approx([1.0, 1.0, 1.2, 1.0])
    assert [row["quality_difference"] for row in table.rows] == pytest.approx([0.0, -0.005, 0.0, -0.005])
    assert [row["communication_bytes_per_step"] for row in table.rows] == [400, 400, 200, 200]
    assert ["default" in str(row["note"]) for row in table.rows] == [False, True, False, False]
    assert table.findings == (
        "fp16-mixed, the default, is 1.90 (1.90 to 1.90, n = 2) × fp32; quality -0.005 (-0.005 to -0.005, n = 2)",
        "fp16 communication is 1.00 (1.00 to 1.00, n = 2) to 1.20 (1.20 to 1.20, n = 2) × fp32 communication",
        "cannot tell which is fastest: fp16-mixed at batch 64 (142.5 samples/s) has 1 (1 to 1, n = 2) times that of "
        "fp16-mixed, fp16 communication at batch 64 (142.5 samples/s)",
    )


def test_one_batch_is_drawn_as_bars_of_speed_and_quality_by_communication() -> None:
    (drawn,) = OPTIMISATIONS.figures(OPTIMISATIONS.analyse(of_one_batch()))
    ((speed, quality),) = drawn.rows
    assert [each.label for each in speed.bars] == ["fp32 communication", "fp16 communication"]
    assert speed.bars[0].names == ("fp32", "fp16-mixed\n(default)")
    assert speed.bars[1].y.tolist() == pytest.approx([1.2, 1.9])
    assert quality.bars[0].y.tolist() == pytest.approx([0.76, 0.755])
    assert (speed.references[0].label, speed.references[0].y) == ("fp32", 1.0)
    assert drawn.svg is not None and "speed over fp32" in drawn.svg


def of_two_batches() -> Outcomes:
    return outcomes(
        measured("fp32", "fp32", 32, {SPEED: 100}),
        measured("bf16-mixed", "fp32", 32, {SPEED: 130}, default=True),
        measured("fp32", "fp32", 512, "out of memory"),
        measured("bf16-mixed", "fp32", 512, {SPEED: 400}, default=True),
        measured("fp32", "fp32", 256, {SPEED: 200}),
        measured("bf16-mixed", "fp32", 256, {SPEED: 380}, default=True),
    )


def test_several_batches_are_curves_by_precision_and_a_batch_without_fp32_has_no_ratio() -> None:
    table = OPTIMISATIONS.analyse(of_two_batches())
    assert [row["speedup"] for row in table.rows] == [1.0, 1.3, None, None, 1.0, 1.9]
    assert table.findings == (
        "bf16-mixed, the default, is 1.30 (single run) to 1.90 (single run) × fp32",
        "cannot tell which is fastest: bf16-mixed at batch 512 (400 samples/s) has 1.05 (single run) times that of "
        "bf16-mixed at batch 256 (380 samples/s)",
    )
    assert not table.has("communication_speedup")
    (drawn,) = OPTIMISATIONS.figures(table)
    ((speed, over),) = drawn.rows  # synthetic data have no quality to draw
    assert [each.label for each in speed.curves] == ["fp32", "bf16-mixed (default)"]
    assert (speed.curves[0].x.tolist(), speed.curves[0].y.tolist()) == ([32, 256], [100, 200])
    assert (speed.curves[1].x.tolist(), speed.curves[1].y.tolist()) == ([32, 256, 512], [130, 380, 400])
    assert over.curves[1].y.tolist() == [1.3, 1.9]
    assert drawn.svg is not None and "out of memory" in drawn.caption


def test_without_fp32_the_first_precision_is_the_base() -> None:
    table = OPTIMISATIONS.analyse(
        outcomes(measured("tf32", "fp32", 32, {SPEED: 100}), measured("fp16-mixed", "fp32", 32, {SPEED: 150}))
    )
    assert table.column("speedup").heading == "speed over tf32"
    assert table.findings[0] == "fp16-mixed is 1.50 (single run) × tf32"


def test_failed_runs_alone_make_a_table_of_gaps_and_no_figure() -> None:
    table = OPTIMISATIONS.analyse(outcomes(measured("fp32", "fp32", 32, "stopped")))
    assert table.findings == () and table.rows[0]["note"] == "stopped"
    (drawn,) = OPTIMISATIONS.figures(table)
    assert drawn.svg is None
