"""Axes of studies take what a run can have, and refuse the rest in one line."""

import pytest

from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import STUDIES
from trainmark.studies.axes import parse_values
from trainmark.studies.study import Axis

BATCH = Axis("batch", "samples per step", lambda request: [8, 16], setting="train.batch_size")


@pytest.mark.parametrize(
    ("study_name", "axis", "text", "allowed"),
    [
        ("threads", "threads", "0-4", "whole numbers from 1 on"),
        ("trade-off", "members", "0,1,2", "whole numbers from 1 on"),
        ("large-batch", "batch", "0", "whole numbers from 1 on"),
        ("repeatability", "seeds", "-1", "whole numbers from 0 on"),
        ("memory", "limit", "0", "finite numbers above 0"),
        ("memory", "limit", "inf", "finite numbers above 0"),
        ("memory", "limit", "nan", "finite numbers above 0"),
    ],
)
def test_values_below_the_smallest_and_those_not_finite_are_refused_with_what_is_allowed(
    study_name: str, axis: str, text: str, allowed: str
) -> None:
    got = text.partition(",")[0]
    with pytest.raises(ConfigError, match=f"^--{axis} takes {allowed}, but got '{got}'\\.$"):
        parse_values(STUDIES.load(study_name).axis(axis), text)


def test_seeds_start_at_zero_and_an_axis_may_say_that_it_does() -> None:
    assert parse_values(STUDIES.load("repeatability").axis("seeds"), "0-2") == (0, 1, 2)
    assert parse_values(BATCH._replace(least=0), "0,8") == (0, 8)


def test_a_range_that_is_too_long_is_refused_with_how_many_values_there_may_be() -> None:
    with pytest.raises(ConfigError, match=r"^--batch 1-100000 has more than 1,000 values\. Choose fewer\.$"):
        parse_values(BATCH, "1-100000")
    assert len(parse_values(BATCH, "1-1000")) == 1000
