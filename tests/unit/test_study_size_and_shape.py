"""The study `size-and-shape` on written-out results: Table 1, ratios over random batches, figures and gaps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.run_events import as_lines
from tests.unit.written_outcomes import outcomes, result
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.report.drawing import Figure, Plot
from trainmark.spec.config import Setting
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.table import Table
from trainmark.studies.outcomes import Outcome, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.size_and_shape import SIZE_AND_SHAPE, steps_of
from trainmark.studies.study import Request

NO_COUNTERS = "the kernel has no hardware counters here, as in most virtual machines"
COUNTERS = ("instructions_per_megapixel", "instructions_per_cycle", "cache_misses_per_1000_instructions")
SOCKETS = (Slot(cores=tuple(range(8))), Slot(cores=tuple(range(8, 16))))
TWO_SOCKETS = Site(name="s", groups=(NodeGroup(count=2, slots=SOCKETS),))


def metrics_of(pace: float, informative: float, padding: float, speed: float, counted: float | None) -> dict[str, Any]:
    total = informative + padding
    counters = dict.fromkeys(COUNTERS, NO_COUNTERS) if counted is None else dict.fromkeys(COUNTERS, counted)
    return {
        "seconds_per_megapixel": pace,
        "seconds_per_informative_megapixel": pace * total / informative,
        "informative_megapixels_per_step": informative,
        "padding_megapixels_per_step": padding,
        "megapixels_per_step": total,
        "padding_ratio": total / informative,
        "step_memory_bytes": 2.0**30,
        "peak_memory_bytes": 2.0**31,
        "throughput_samples_per_s": speed,
        **counters,
    }


def written_point(
    at: dict[str, Setting], rounds: list[dict[str, Any]], folder: RunFolder | None = None
) -> PointOutcomes:
    runs = []
    for number, metrics in enumerate(rounds, 1):
        parts = [name for name in metrics if name.endswith("megapixels_per_step") or name == "step_memory_bytes"]
        details: dict[str, dict[str, object]] = {
            name: {"mean": metrics[name], "min": 0.5 * metrics[name], "max": 2 * metrics[name]} for name in parts
        }
        details["instructions_per_megapixel"] = {"per_informative_megapixel": 7.0}
        runs.append(Outcome(number, f"r{number}", result(metrics, details), folder=folder))
    return PointOutcomes(Point(at=at), tuple(runs))


def written_table(counted: float | None = None) -> Table:
    # Two rounds, of which the second is slower as a whole: ratios within rounds do not see it.
    def rounds(pace: float, informative: float, padding: float, speed: float) -> list[dict[str, Any]]:
        return [metrics_of(pace * slow, informative, padding, speed / slow, counted) for slow in (1.0, 1.25)]

    def at(name: str, batching: str) -> dict[str, Setting]:
        return {"input": name, "cores": 2, "batching": batching}

    return SIZE_AND_SHAPE.analyse(
        outcomes(
            written_point(at("lr", "random"), rounds(0.1, 68, 0, 100)),
            written_point(at("mr", "random"), rounds(0.1, 12, 36, 10)),
            written_point(at("mr", "nearest"), rounds(0.12, 12, 1.2, 30)),
            written_point(at("mr", "pixels"), rounds(0.1, 12, 2.4, 28)),
            PointOutcomes(Point(at=at("hr", "random")), (), "out of memory"),
        )
    )


def test_strategies_are_compared_with_random_batches_of_the_same_input_within_rounds() -> None:
    rows = {(row["input"], row["batching"]): row for row in written_table().rows}
    nearest, pixels = rows["mr", "nearest"], rows["mr", "pixels"]
    # 0.1 · 48 / 12 s over 0.12 · 13.2 / 12 s per informative MP.
    assert nearest["pixels_over_random"] == pytest.approx(0.4 / 0.132)
    assert nearest["pixels_over_random_low"] == pytest.approx(nearest["pixels_over_random_high"])
    assert nearest["speed_over_random"] == pytest.approx(3)
    assert pixels["pixels_over_random"] == pytest.approx(0.4 / 0.12)
    assert rows["mr", "random"]["pixels_over_random"] == 1
    assert rows["hr", "random"]["note"] == "out of memory"


def test_pixels_of_a_step_are_mean_smallest_and_largest() -> None:
    row = written_table().where(input="mr", batching="random")[0]
    assert [row[f"padding_mp{end}"] for end in ("_low", "", "_high")] == [18, 36, 72]
    assert [row[f"total_mp{end}"] for end in ("_low", "", "_high")] == [24, 48, 96]


def test_findings_have_tables_1_and_2_the_best_strategy_and_why_there_are_no_counters() -> None:
    assert written_table().findings == (
        "lr, random: 34/68/136 informative, 0/0/0 padding, 34/68/136 total MP per step (smallest/mean/largest)",
        "mr, random: 6/12/24 informative, 18/36/72 padding, 24/48/96 total MP per step (smallest/mean/largest)",
        "lr, random: 0.5/1/2 GiB per step (smallest/mean/largest)",
        "mr, random: 0.5/1/2 GiB per step (smallest/mean/largest)",
        "mr, 2 cores: cannot tell whether a strategy is faster than random: pixels trains 3.33 (3.33 to 3.33, n = 2) × "
        "the informative pixels of random per second; 1.2 pixels are computed for each informative one, with random 4",
        f"instructions per MP, IPC and MPKI are unavailable: {NO_COUNTERS}",
    )


def test_a_gain_within_the_spread_of_the_rounds_is_no_gain() -> None:
    at: dict[str, Setting] = {"input": "mr", "cores": 2}
    slow_then_fast = [metrics_of(pace, 12, 36, 10, None) for pace in (0.2, 0.1)]
    table = SIZE_AND_SHAPE.analyse(
        outcomes(
            written_point({**at, "batching": "random"}, slow_then_fast),
            written_point({**at, "batching": "aspect"}, list(reversed(slow_then_fast))),
        )
    )
    assert table.findings[2] == (
        "mr, 2 cores: cannot tell whether a strategy is faster than random: aspect trains 1.25 (0.5 to 2, n = 2) × the "
        "informative pixels of random per second; 4 pixels are computed for each informative one, with random 4"
    )


def plots_of(figure: Figure) -> list[Plot]:
    return [plot for row in figure.rows for plot in row if isinstance(plot, Plot)]


def test_figures_of_counters_are_left_out_where_there_are_none() -> None:
    without, counted = ([each.name for each in SIZE_AND_SHAPE.figures(written_table(c))] for c in (None, 1.5))
    names = ("time-2-cores", "pixels", "memory", "batching-2-cores")
    assert without == [f"size-and-shape-{name}" for name in names]
    assert not written_table().rows[0].keys() & set(COUNTERS)
    assert set(counted) - set(without) == {"size-and-shape-counters"}
    row = written_table(1.5).where(input="lr")[0]
    assert (row["instructions_per_cycle"], row["instructions_per_informative_megapixel"]) == (1.5, 7)


def test_strategies_are_bars_of_each_input_that_has_several() -> None:
    figures = {figure.name: figure for figure in SIZE_AND_SHAPE.figures(written_table())}
    ratio, pace = plots_of(figures["size-and-shape-batching-2-cores"])
    (bars,) = ratio.bars
    assert (bars.label, bars.names) == ("mr", ("random", "nearest", "pixels"))
    assert bars.y == pytest.approx([4, 1.1, 1.2])
    assert pace.bars[0].y == pytest.approx([0.45, 0.1485, 0.135])  # medians of both rounds
    assert "out of memory" in figures["size-and-shape-batching-2-cores"].caption


def test_pixels_and_memory_are_bars_by_input() -> None:
    figures = {figure.name: figure for figure in SIZE_AND_SHAPE.figures(written_table())}
    (pixels,), (memory, by_strategy) = (plots_of(figures[f"size-and-shape-{what}"]) for what in ("pixels", "memory"))
    assert [bars.label for bars in pixels.bars] == ["informative", "padding", "total"]
    assert pixels.bars[1].names == ("lr", "mr", "hr")
    assert pixels.bars[1].y[:2].tolist() == [0, 36]
    assert memory.bars[0].y[:2].tolist() == [1, 1]
    (bars,) = by_strategy.bars
    assert (bars.label, bars.names, bars.y.tolist()) == ("mr", ("random", "nearest", "pixels"), [1, 1, 1])


def test_time_is_drawn_over_the_steps_of_the_events(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    path = folder.attempt(0, 1).rank_events(0)
    path.parent.mkdir(parents=True)
    steps = {"kind": "steps", "step_s": [0.4, 0.1, 0.3], "wait_s": [0.0] * 3, "loss": [1.0] * 3}
    unlike = {**steps, "total_px": [4e6, 1e6, 2e6], "informative_px": [1_000_000] * 3, "samples": [2] * 3}
    unlike["total_px"] = [int(px) for px in unlike["total_px"]]
    path.write_text(as_lines(unlike))
    at: dict[str, Setting] = {"input": "mr", "cores": 2, "batching": "random"}
    point = written_point(at, [metrics_of(0.1, 1, 1, 10, None)] * 2, folder)
    all_pixels, informative = (steps_of(point, is_informative=each) for each in (False, True))
    assert all_pixels is not None and informative is not None
    assert all_pixels.pace == pytest.approx([0.1, 0.1, 0.15])
    assert informative.pace == pytest.approx([0.4, 0.1, 0.3])
    # Images of one shape do not repeat their pixels in every step: 2 MP, of which 1 is informative.
    path.write_text(as_lines(steps))
    same = steps_of(point, is_informative=False)
    assert same is not None and same.pace == pytest.approx([0.2, 0.05, 0.15])
    path.write_text(as_lines(unlike))
    first, *_ = SIZE_AND_SHAPE.figures(SIZE_AND_SHAPE.analyse(outcomes(point)))
    drawn = [plot.curves[0].y.tolist() for plot in plots_of(first)]
    assert drawn == [pytest.approx([0.1, 0.1, 0.15]), pytest.approx([0.4, 0.1, 0.3])]
    assert [plot.curves[0].label for plot in plots_of(first)] == ["mr", "mr"]


def request(*settings: str, site: Site = TWO_SOCKETS, **given: tuple[Setting, ...]) -> Request:
    return Request(site, resolve_config([parse_setting(each) for each in settings]), given)


def test_images_of_one_shape_are_batched_at_random_alone() -> None:
    points = SIZE_AND_SHAPE.points(request(cores=(2,)))
    found = [(point.at["input"], point.at["batching"]) for point in points]
    strategies = ["random", "aspect", "size", "nearest", "pixels", "singles"]
    assert found == [("lr", "random"), *((name, each) for name in ("mr", "hr") for each in strategies)]
    assert "train.batching" not in points[0].settings
    assert points[2].settings["train.batching"] == "aspect"


def test_at_size_tiny_images_are_small_and_generated_else_the_workloads_own() -> None:
    tiny = {point.at["input"]: point.settings for point in SIZE_AND_SHAPE.points(request(cores=(2,)))}
    assert {name: each.get("data.side") for name, each in tiny.items()} == {"lr": 32, "mr": 48, "hr": None}
    assert {each["data.input"] for each in tiny.values()} == {"lr", "mr", "hr"}
    full = SIZE_AND_SHAPE.points(request("size=full", "data.path=/data/MAMe", cores=(2,)))
    assert {(point.settings["workload"], point.settings["size"], point.at["input"]) for point in full} == {
        ("artworks", name, name) for name in ("lr", "mr", "hr")
    }
    assert all("train.batch_size" not in point.settings for point in full)


def test_ten_steps_do_not_wait_for_predictions_unless_asked_to() -> None:
    for size in ("tiny", "full", "mr"):
        assert SIZE_AND_SHAPE.overrides(size)["evaluate.samples"] == 0
    assert not any("evaluate.samples" in point.settings for point in SIZE_AND_SHAPE.points(request(cores=(2,))))


def test_every_repeat_trains_the_same_batches_on_its_own_cores() -> None:
    points = SIZE_AND_SHAPE.points(request(cores=(4,)))
    assert {point.settings["seed"] for point in points} == {1}
    assert {(point.slot_cores, point.settings["launch.threads"]) for point in points} == {(4, 4)}


def test_cores_are_four_a_socket_and_a_node_as_far_as_they_differ() -> None:
    axis = SIZE_AND_SHAPE.axis("cores")
    assert axis.values(request()) == (4, 8, 16)
    small = Site(name="s", groups=(NodeGroup(count=2, slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
    assert axis.values(request(site=small)) == (2,)
    gpu = replace(request(), site=Site(name="g", groups=(NodeGroup(slots=(Slot(cores=(0, 1, 2), accelerator=0),)),)))
    assert axis.values(gpu) == (3,)
    assert {point.slot_cores for point in SIZE_AND_SHAPE.points(gpu)} == {None}
