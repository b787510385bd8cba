"""The study of memory: bisection for the largest batch, savings within rounds, and figures, on written-out results."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.written_outcomes import outcomes, point
from trainmark.report.drawing import Plot
from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.run_folder import Places
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.studies.largest_batch import GIB, PEAK, check_limit, most_tries, next_batch, within_reach
from trainmark.studies.make import Asked, make_study
from trainmark.studies.memory import MEMORY, SPEED
from trainmark.studies.outcomes import Outcomes, PointOutcomes
from trainmark.studies.preview import most_runs, preview_lines, preview_record

MIB = 2**20
TWO_CORES = Site(name="two", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
WITH_GPU = Site(name="gpu", groups=(NodeGroup(slots=(Slot(cores=(0,), accelerator=0),)),))


def searched(fits: Callable[[int], bool], batches: tuple[int, ...], most: int = 10_000) -> dict[int, bool]:
    """All batches that a search tries, in their order."""
    tried = {batch: fits(batch) for batch in batches}
    while (batch := next_batch(tried, most)) is not None:
        assert batch not in tried
        tried[batch] = fits(batch)
    return tried


def test_a_search_doubles_until_one_does_not_fit_and_then_halves_the_distance() -> None:
    # 1024 + 10 · batch ≤ 2048 MiB holds up to 102.
    tried = searched(lambda batch: 1024 + 10 * batch <= 2048, (8, 16, 32))
    assert tried == {8: True, 16: True, 32: True, 64: True, 128: False, 96: True, 112: False, 104: False, 100: True}
    # 104 is within a sixteenth of 100: 102, the answer, is between both.


def test_small_batches_are_found_exactly() -> None:
    # 1024 + 100 · batch ≤ 2048 MiB holds up to 10.
    tried = searched(lambda batch: 1024 + 100 * batch <= 2048, (8, 16))
    assert tried == {8: True, 16: False, 12: False, 10: True, 11: False}


def test_a_search_goes_down_if_nothing_fitted_and_ends_at_one_sample() -> None:
    assert searched(lambda batch: batch <= 5, (32,)) == {32: False, 16: False, 8: False, 4: True, 6: False, 5: True}
    assert searched(lambda batch: False, (4,)) == {4: False, 2: False, 1: False}


def test_a_search_ends_at_its_bound_if_everything_fits() -> None:
    assert list(searched(lambda batch: True, (32,), most=200)) == [32, 64, 128, 200]


def test_no_batch_is_tried_that_is_expected_to_need_more_than_nine_eighths_of_the_limit() -> None:
    peaks = {32: 1024.0 + 320, 64: 1024.0 + 640}
    # 1024 + 10 · batch = 9/8 · 1800 = 2025 at 100.1.
    assert within_reach(128, peaks, 1800) == 100
    assert within_reach(70, peaks, 1800) == 70
    assert within_reach(128, peaks, None) == 128
    # A single batch: all of its memory is taken to grow with it. 32 · 9/8 · 1500 / 1344 = 40.2.
    assert within_reach(64, {32: 1344.0}, 1500) == 40
    assert within_reach(128, {32: 100.0, 64: 100.0}, 110) == 128


def test_a_limit_that_the_search_could_exceed_is_refused_with_the_largest_that_it_cannot() -> None:
    check_limit(8, 2, 18 * GIB)  # 8 · 9/8 · 2 = 18
    with pytest.raises(ConfigError, match=r"--limit 10: .* up to 22\.5 GiB \(2 workers\), but 18 GiB .*--limit 8\."):
        check_limit(10, 2, 18 * GIB)


def at(technique: str, batch: int, precision: str = "fp32") -> dict[str, Setting]:
    return {"technique": technique, "precision": precision, "batch": batch}


def linear(technique: str, batch: int, mib_per_sample: float, speed: float = 100.0) -> PointOutcomes:
    """1 GiB and so many MiB per sample, in each of two rounds; the second is half as fast."""
    peak = (1024 + mib_per_sample * batch) * MIB
    return point(at(technique, batch), [{PEAK: peak, SPEED: speed}, {PEAK: peak, SPEED: speed / 2}])


def of(*points: PointOutcomes, limits: tuple[float, ...] = (2.0,), site: Site = TWO_CORES) -> Outcomes:
    return replace(outcomes(*points), axes={"batch": (32, 64), "limit": limits}, site=site)


def refined(found: Outcomes) -> list[tuple[Setting, Setting]]:
    return [(each.at["technique"], each.at["batch"]) for each in MEMORY.refine(found)]


def test_each_technique_is_searched_on_its_own_until_it_is_found() -> None:
    # The line reaches 9/8 of 2 GiB at 128 for none, at 256 for recompute, which doubles only.
    found = of(*(linear("none", b, 10) for b in (32, 64)), *(linear("recompute", b, 5) for b in (32, 64)))
    assert refined(found) == [("none", 128), ("recompute", 128)]
    more = of(*found.points, linear("none", 128, 10), linear("recompute", 128, 5))
    assert refined(more) == [("none", 96), ("recompute", 256)]
    done = of(*found.points, *(linear("none", b, 10) for b in (96, 100, 104)), linear("recompute", 205, 5))
    assert refined(done) == [("recompute", 134)]


def test_what_runs_out_of_memory_or_is_refused_for_it_does_not_fit_and_other_failures_end_the_search() -> None:
    fits = linear("none", 32, 10)
    reasons = "failed: rank 0 failed: out of memory: the accelerator could not allocate 2 GiB"
    assert refined(of(fits, point(at("none", 64), [reasons] * 2))) == [("none", 48)]
    refused = point(at("none", 64), [], refused="would run out of memory: needs at least 9 GiB")
    assert refined(of(fits, refused)) == [("none", 48)]
    assert refined(of(fits, point(at("none", 64), ["failed: rank 0 failed: no such file"] * 2))) == []


def test_without_a_limit_cpus_are_not_searched_and_accelerators_until_they_run_out_of_memory() -> None:
    points = linear("none", 64, 10), linear("offload-host", 64, 5)
    assert refined(of(*points, limits=())) == []
    # Host memory, to which activations are offloaded, would be full before the accelerator.
    assert refined(of(*points, limits=(), site=WITH_GPU)) == [("none", 128)]


def test_a_search_goes_no_further_than_sixteen_times_the_largest_batch_of_the_axis() -> None:
    assert refined(of(linear("none", 1000, 0.001))) == [("none", 1024)]
    found = of(linear("none", 1024, 0.001))
    assert refined(found) == []
    assert MEMORY.analyse(found).findings == (
        "largest batch within 2 GiB, fp32: none at least 1024 (the search ended before one did not fit)",
    )


def table_of(*, limits: tuple[float, ...] = (2.0,)):  # type: ignore[no-untyped-def]
    return MEMORY.analyse(
        of(
            *(linear("recompute", b, 4, speed=75) for b in (32, 64)),
            *(linear("none", b, 10) for b in (96, 32, 64, 100, 104)),
            point(at("offload-host", 64), [], refused="activations are in host memory already"),
            linear("sharded", 64, 8, speed=160),
            limits=limits,
        )
    )


def test_the_table_has_bytes_per_sample_memory_saved_and_throughput_lost_within_rounds() -> None:
    table = table_of()
    assert [(row["technique"], row["batch"]) for row in table.rows][:5] == [
        ("none", batch) for batch in (32, 64, 96, 100, 104)
    ]
    (small,), (large,) = (table.where(technique="recompute", batch=batch) for batch in (32, 64))
    assert small["bytes_per_sample"] is None and large["bytes_per_sample"] == 4 * MIB
    assert large["memory_saved"] == pytest.approx(1 - 1280 / 1664)
    assert large["throughput_lost"] == pytest.approx(0.25)
    (sharded,) = table.where(technique="sharded")
    assert sharded["throughput_lost"] == pytest.approx(0.2)  # 160 of two workers against 100 of one
    assert all(row["memory_saved"] is None for row in table.where(technique="none"))


def test_the_largest_batches_are_findings_and_bars_and_gaps_stay_gaps() -> None:
    table = table_of()
    assert table.findings[0].startswith("largest batch within 2 GiB, fp32: none 100 (not 104), recompute at least 64 (")
    memory, against_none, largest = MEMORY.figures(table)
    assert all(each.svg is not None for each in (memory, against_none, largest))
    (peaks,) = memory.rows[0]
    assert [each.label for each in peaks.curves] == ["none", "recompute", "sharded"]
    assert peaks.curves[1].y.tolist() == [1 + 128 / 1024, 1.25]
    assert [each.label for each in peaks.references] == ["limit 2 GiB"]
    (bars,) = largest.rows[0]
    assert dict(zip(bars.bars[0].names, bars.bars[0].y.tolist(), strict=True))["none"] == 100
    assert "technique=offload-host precision=fp32 batch=64 (activations are in host memory already)" in memory.caption


def test_techniques_are_compared_with_none_over_all_batches_and_what_failed_is_a_stated_gap() -> None:
    # At 128, the largest, the search came by with recompute alone; at 64 two of three can be compared, at 32 as well.
    table = MEMORY.analyse(
        of(
            *(linear("none", b, 10) for b in (32, 64, 128)),
            *(linear("recompute", b, 4, speed=75) for b in (32, 64, 128)),
            *(linear("sharded", b, 8, speed=160) for b in (32, 64)),
            point(at("offload-disk", 64), ["failed: rank 0 failed: no such file"] * 2),
        )
    )
    drawn = MEMORY.figures(table)[1]
    ((saved, lost),) = drawn.rows
    assert isinstance(saved, Plot) and isinstance(lost, Plot)
    assert (saved.title, lost.title) == ("fp32: memory saved", "fp32: throughput lost")
    found = {each.label: (each.x.tolist(), each.y.tolist()) for each in lost.curves}
    assert found == {"recompute": ([32, 64, 128], [25, 25, 25]), "sharded": ([32, 64], pytest.approx([20, 20]))}
    # 1 − (1024 + 4 · 64) / (1024 + 10 · 64), in percent
    assert saved.curves[0].y.tolist()[1] == pytest.approx(100 * (1 - 1280 / 1664))
    assert drawn.svg is not None and "offload-disk precision=fp32 batch=64 (failed" in drawn.caption


def test_a_search_tries_no_more_batches_than_were_announced() -> None:
    # Beyond the axis 4 doublings and 4 halvings; between 64 and 1024, 960 in steps of 4 are 8 halvings; 3 to spare.
    assert most_tries((32, 64)) == 4 + 4 + 3
    assert most_tries((64, 1024)) == 8 + 3
    assert most_tries((4096,)) == 12 + 3  # down to one sample
    for axis in ((32, 64), (64, 1024), (4096,), (1,)):
        for largest in range(0, 20 * axis[-1], max(1, axis[-1] // 7)):
            tried = searched(lambda batch, most=largest: batch <= most, axis, 16 * axis[-1])
            assert len(tried) - len(axis) <= most_tries(axis)


def test_runs_of_the_search_are_announced_before_anything_starts(tmp_path: Path) -> None:
    axes: dict[str, tuple[Setting, ...]] = {"batch": (32, 64), "precision": ("fp32",), "technique": ("none",)}
    record = make_study(MEMORY, Asked(axes={**axes, "limit": (0.5,)}, repeats=2), TWO_CORES, Places.of(tmp_path))
    assert (len(record.runs), record.most_more, most_runs(record)) == (4, 22, 26)
    assert "2 points × 2 repeats = 4 runs, then a search of at most 22 more; " in preview_lines(record)[0]
    assert "(with the search up to about " in preview_lines(record)[0]
    assert preview_record(record)["most_runs"] == 26
    without = make_study(MEMORY, Asked(axes=axes, repeats=2), TWO_CORES, Places.of(tmp_path))
    assert most_runs(without) == 4 and "search" not in preview_lines(without)[0]


def test_a_larger_batch_that_needed_less_memory_widens_what_was_found() -> None:
    def one(batch: int, mib: float) -> PointOutcomes:
        return point(at("none", batch), [{PEAK: mib * MIB, SPEED: 1.0}])

    # 2048 MiB; 96 needed 30 MiB less than 64: 100, 8 MiB below the limit, and 104, 12 MiB above, cannot be told.
    points = (one(64, 2010), one(96, 1980), one(100, 2040), one(104, 2060), one(128, 2200))
    (found,) = MEMORY.analyse(of(*points)).findings
    assert found == ("largest batch within 2 GiB, fp32 (single runs): none at least 96 (not 128; peaks vary by 30 MiB)")


def test_what_is_not_known_of_the_largest_batch_is_said_and_drawn_as_that() -> None:
    # 2 GiB hold none up to 102 and recompute up to 256; one sample of sharded needs more.
    table = MEMORY.analyse(
        of(
            *(linear("none", b, 10) for b in (100, 104)),
            linear("recompute", 64, 4),
            point(at("offload-disk", 64), ["failed: rank 0 failed: no such file"] * 2),
            *(linear("sharded", b, 2000) for b in (1, 2)),
        )
    )
    assert table.findings == (
        "largest batch within 2 GiB, fp32: none 100 (not 104), "
        "recompute at least 64 (the search ended before one did not fit), "
        "offload-disk: unknown: batch 64: failed: rank 0 failed: no such file, sharded: no batch fits",
    )
    drawn = MEMORY.figures(table)[2]
    ((bars,),) = drawn.rows
    assert bars.bars[0].names == ("none", "recompute", "offload-disk", "sharded")
    assert bars.bars[0].y.tolist() == pytest.approx([100, 64, float("nan"), 0], nan_ok=True)
    assert bars.bars[0].are_bounds == (False, True, False, False)
    assert drawn.svg is not None and ">≥ 64<" in drawn.svg and ">100<" in drawn.svg
    assert "one that is 1/16 larger, and at least one sample, does not." in drawn.caption


def test_a_search_that_has_not_ended_says_what_does_not_fit() -> None:
    (found,) = MEMORY.analyse(of(linear("none", 64, 10), linear("none", 128, 10))).findings
    assert found == "largest batch within 2 GiB, fp32: none at least 64 (not 128; the search has not ended)"


def test_bytes_per_sample_and_what_is_saved_say_why_they_are_missing() -> None:
    notes = {(row["technique"], row["batch"]): row["note"] for row in table_of().rows}
    alone = "memory saved, throughput lost per worker: nothing to compare with"
    assert notes["none", 32] == f"per sample, {alone}"
    assert notes["none", 64] == alone


def test_without_a_limit_there_is_no_figure_of_largest_batches() -> None:
    table = table_of(limits=())
    assert table.findings == () and [each.name for each in MEMORY.figures(table)] == ["memory", "memory-against-none"]


def test_outcomes_of_failed_runs_alone_still_make_a_table_and_figures() -> None:
    table = MEMORY.analyse(of(point(at("none", 32), ["stopped"]), limits=()))
    assert table.rows[0]["note"] == "stopped"
    assert all(each.svg is None for each in MEMORY.figures(table))


def test_points_differ_in_technique_alone_and_offloading_to_host_is_refused_on_cpus(tmp_path: Path) -> None:
    asked = Asked(axes={"batch": (64,), "precision": ("fp32",)})
    record = make_study(MEMORY, asked, TWO_CORES, Places.of(tmp_path))
    assert [planned.point.at["technique"] for planned in record.points if planned.refused] == ["offload-host"]
    settings = {str(planned.point.at["technique"]): planned.point.settings for planned in record.points}
    for each in settings.values():
        assert each["launch.threads"] == 1 and each["train.torch.memory_format"] == "contiguous"
    assert settings["sharded"]["ensemble.workers"] == 2 and settings["none"]["ensemble.workers"] == 1


def test_a_limit_near_the_memory_of_this_machine_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Choose at most --limit"):
        make_study(MEMORY, Asked(axes={"limit": (1e6,)}), TWO_CORES, Places.of(tmp_path))
