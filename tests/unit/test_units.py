"""Figures are shown with the right prefix and unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.spec.units import (
    counted,
    parse_cores,
    show_cores,
    show_duration,
    show_interval,
    show_shape,
    show_value,
    show_with_interval,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (31.41e15, "FLOP/s", "31.41 PFLOP/s"),
        (0, "FLOP/s", "0 FLOP/s"),
        (999, "FLOP/s", "999 FLOP/s"),
        (1536 * 1024**2, "B", "1.5 GiB"),
        (12, "B", "12 B"),
        (125e6, "B/s", "125 MB/s"),
        (0.2345, "share", "23.4 %"),
        (0.8462, "", "0.8462"),
        (1234.56, "samples/s", "1235 samples/s"),
    ],
)
def test_values(value: float, unit: str, text: str) -> None:
    assert show_value(value, unit) == text


@pytest.mark.parametrize(
    ("low", "high", "unit", "text"),
    [
        (3077, 3646, "samples/s", "3077 – 3646 samples/s"),
        (55.7e9, 68.15e9, "FLOP/s", "55.7 – 68.15 GFLOP/s"),
        (999e9, 1.1e12, "FLOP/s", "999 GFLOP/s – 1.1 TFLOP/s"),
        (0.166, 0.203, "share", "16.6 – 20.3 %"),
        (0.7964, 0.8281, "", "0.7964 – 0.8281"),
        (245, 305, "s", "4 min 05 s – 5 min 05 s"),
    ],
)
def test_intervals_name_their_unit_once(low: float, high: float, unit: str, text: str) -> None:
    assert show_interval(low, high, unit) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "text"),
    [
        (3400, 3077, 3646, "samples/s", "3400 (3077 – 3646) samples/s"),
        (999e9, 990e9, 1.1e12, "FLOP/s", "0.999 (0.99 – 1.1) TFLOP/s"),
        (900 * 2**20, 900 * 2**20, 2**30, "B", "0.8789 (0.8789 – 1) GiB"),
        (3, 2, 4, "B", "3 (2 – 4) B"),
        (0.9, 0.85, 1.1, "s", "0.9 (0.85 – 1.1) s"),
        (0.5, 0.45, 0.6, "s", "500 (450 – 600) ms"),
        (245, 50, 305, "s", "4 min 05 s (50 s – 5 min 05 s)"),
        (-0.02, -0.05, 0.01, "share", "-2 (-5 – 1) %"),
        (0.8, 0.8, 0.80000001, "", "0.8"),
    ],
)
def test_a_value_and_its_interval_have_one_prefix(value: float, low: float, high: float, unit: str, text: str) -> None:
    assert show_with_interval(value, low, high, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (12.34, "12.3 s"), (245, "4 min 05 s"), (7380, "2 h 03 min"), (59.99, "60 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


def test_cores_are_listed_as_linux_does() -> None:
    assert show_cores((0, 1, 2, 3, 8)) == "0-3,8"
    assert parse_cores("0-3,8\n") == (0, 1, 2, 3, 8)


@given(st.sets(st.integers(0, 300)))
def test_core_lists_survive_a_round_trip(cores: set[int]) -> None:
    assert parse_cores(show_cores(tuple(cores))) == tuple(sorted(cores))


def test_one_is_singular_and_everything_else_plural() -> None:
    assert [counted(number, "sample") for number in (0, 1, 1200)] == ["0 samples", "1 sample", "1,200 samples"]
    assert [counted(number, "class") for number in (1, 2)] == ["1 class", "2 classes"]


def test_a_shape_is_written_with_crosses() -> None:
    assert show_shape((3, 224, 224)) == "3 × 224 × 224"
