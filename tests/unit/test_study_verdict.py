"""Which point is best: the verdict on written-out results."""

from tests.unit.written_outcomes import Figures, outcomes, point
from trainmark.studies.outcomes import PointOutcomes
from trainmark.studies.verdict import find_best, verdict

SPEED = "throughput_samples_per_s"


def at(name: str, *speeds: float | str) -> PointOutcomes:
    rounds: list[Figures | str] = [each if isinstance(each, str) else {SPEED: each} for each in speeds]
    return point({"name": name}, rounds)


def said(*points: PointOutcomes) -> str | None:
    return verdict(outcomes(*points).points, SPEED, lambda each: str(each.at["name"]), "fastest")


def test_what_is_ahead_in_every_round_is_best_though_the_machine_drifts() -> None:
    assert said(at("a", 10, 20, 30), at("b", 11, 22, 33)) == "fastest: b, 1.1 (1.1 to 1.1) times that of a"


def test_inside_the_noise_it_cannot_be_told() -> None:
    found = said(at("eager", 10, 10, 10), at("channels-last", 9, 10.01, 11))
    assert found == "cannot tell which is fastest: channels-last has 1 (0.9 to 1.1) times that of eager"


def test_a_third_that_may_be_as_good_is_a_rival_though_the_second_is_not() -> None:
    # c has the lowest median, but was faster than a once.
    found = said(at("a", 10, 10, 10), at("b", 9, 9, 9), at("c", 12, 8, 8))
    assert found == "cannot tell which is fastest: a has 1.25 (0.833 to 1.25) times that of c"


def test_one_run_is_called_one_and_one_point_is_no_choice() -> None:
    assert said(at("a", 10), at("b", 8)) == "fastest: a, 1.25 times that of b in a single run"
    assert said(at("a", 10), at("b", "failed")) is None


def test_without_a_round_in_common_it_cannot_be_told() -> None:
    found = said(at("a", 10, "failed"), at("b", "failed", 8))
    assert found == "cannot tell which is fastest: a has no round in common with that of b"


def test_nothing_at_all_is_less_than_something() -> None:
    best = find_best([at("a", 0, 0), at("b", 0.5, 0.25)], SPEED)
    assert best is not None and best.is_clear and best.lead == "0.375 (0.25 to 0.5) more than"
