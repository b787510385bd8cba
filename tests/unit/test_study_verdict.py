"""Which point is best: the verdict on written-out results."""

from tests.unit.written_outcomes import Figures, outcomes, point, result
from trainmark.studies.outcomes import Outcome, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.tables import build_table, metric
from trainmark.studies.verdict import find_best, verdict

SPEED = "throughput_samples_per_s"


def at(name: str, *speeds: float | str) -> PointOutcomes:
    rounds: list[Figures | str] = [each if isinstance(each, str) else {SPEED: each} for each in speeds]
    return point({"name": name}, rounds)


def said(*points: PointOutcomes) -> str | None:
    return verdict(outcomes(*points).points, SPEED, lambda each: str(each.at["name"]), "fastest")


def test_what_is_ahead_in_every_round_is_best_though_the_machine_drifts() -> None:
    found = said(at("a", 10, 20, 30, 40, 50), at("b", 11, 22, 33, 44, 55))
    assert found == "fastest: b, 1.1 (1.1 to 1.1) times that of a"


def test_below_five_rounds_nothing_is_best_though_it_was_ahead_in_all() -> None:
    # Four rounds are on one side of 1 by chance in 1 of 8 cases, five in 1 of 16.
    found = said(at("a", 10, 20, 30, 40), at("b", 11, 22, 33, 44))
    assert found == "cannot tell which is fastest: b has 1.1 (1.1 to 1.1, n = 4) times that of a"


def test_inside_the_noise_it_cannot_be_told() -> None:
    found = said(at("eager", 10, 10, 10, 10, 10), at("channels-last", 9, 10.01, 11, 9, 11))
    assert found == "cannot tell which is fastest: channels-last has 1 (0.9 to 1.1) times that of eager"


def test_a_third_that_may_be_as_good_is_a_rival_though_the_second_is_not() -> None:
    # c has the lowest median, but was faster than a once.
    found = said(at("a", *[10] * 5), at("b", *[9] * 5), at("c", 12, 8, 8, 8, 8))
    assert found == "cannot tell which is fastest: a has 1.25 (0.833 to 1.25) times that of c"


def test_one_run_is_called_one_and_one_point_is_no_choice() -> None:
    assert said(at("a", 10), at("b", 8)) == "cannot tell which is fastest: a has 1.25 (single run) times that of b"
    assert said(at("a", 10), at("b", "failed")) is None


def test_without_a_round_in_common_it_cannot_be_told() -> None:
    found = said(at("a", 10, "failed"), at("b", "failed", 8))
    assert found == "cannot tell which is fastest: a has no round in common with that of b"


def test_nothing_at_all_is_less_than_something() -> None:
    best = find_best([at("a", *[0] * 5), at("b", 0.5, 0.25, 0.375, 0.5, 0.25)], SPEED)
    assert best is not None and best.is_clear and best.lead == "0.375 (0.25 to 0.5) more than"


def with_others(name: str, speed: float, *shares: float) -> PointOutcomes:
    """A point whose rounds ran beside other processes, which took these shares of the core time."""
    runs = []
    for number, share in enumerate(shares, 1):
        node = {"member": 0, "own": 0.9 - share, "total": 0.9, "steal": 0.0}
        found = result({SPEED: speed, "cpu_utilisation": 0.5}, {"cpu_utilisation": {"nodes": [node]}})
        runs.append(Outcome(number, f"r{number}", found))
    return PointOutcomes(Point(at={"name": name}), tuple(runs))


def test_rounds_on_busy_cores_do_not_count_towards_a_verdict_and_are_named() -> None:
    quiet, busy = (with_others(*each) for each in (("a", 10, *[0.01] * 6), ("b", 20, *[0.02] * 4, 0.2, 0.69)))
    assert said(quiet, busy) == (
        "cannot tell which is fastest: b has 2 (2 to 2, 2 of 6 rounds on busy cores) times that of a"
    )
    one_less = with_others("b", 20, *[0.02] * 5, 0.69)
    assert said(quiet, one_less) == "fastest: b, 2 (2 to 2, 1 of 6 rounds on busy cores) times that of a"


def test_busy_cores_do_not_disturb_a_quality() -> None:
    quality = "quality_ensemble"
    points = [with_others(name, 10, *[0.5] * 5) for name in "ab"]
    for each, value in zip(points, (0.5, 0.75), strict=True):
        for run in each.runs:
            assert run.result is not None
            run.result.metrics[quality] = result({quality: value}).metrics[quality]
    best = find_best(points, quality)
    assert best is not None and best.is_clear and best.lead == "1.5 (1.5 to 1.5) times"


def test_runs_on_busy_cores_are_counted_in_note_and_caption() -> None:
    found = outcomes(with_others("a", 10, 0.01, 0.02), with_others("b", 20, 0.1, 0.69))
    table = build_table(found, [metric(SPEED)])
    assert [row["note"] for row in table.rows] == ["", "1 of 2 runs on busy cores (others took up to 69 %)"]
    assert table.caption.endswith("; 1 of 4 runs on busy cores (others took up to 69 %)")


def test_single_runs_have_no_interval_in_files_and_the_caption_says_so() -> None:
    table = build_table(outcomes(at("a", 10)), [metric(SPEED)])
    assert (table.rows[0][SPEED], table.rows[0][f"{SPEED}_low"], table.rows[0][f"{SPEED}_high"]) == (10, None, None)
    assert table.caption.endswith("; n = 1 per point; single runs, without intervals")
