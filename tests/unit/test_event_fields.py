"""Lines of events without the fields that readers rely on are damaged."""

import pytest

from trainmark.spec.event_fields import is_event

ROUND = {"flops": 1e9, "over_s": 0.1, "others_s": None}
CEILING = {"kind": "ceiling", "wall_s": 1.0, "flops": 1e9, "kernel": "k"}
WATCHED = {**CEILING, "rounds": [ROUND], "cores": 1, "clock_tick_s": 0.01, "unwatched": None}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (CEILING, True),  # of an earlier version
        (WATCHED, True),
        ({key: value for key, value in WATCHED.items() if key != "unwatched"}, False),
        ({**WATCHED, "rounds": [{"flops": 1e9}]}, False),
        ({"kind": "failed", "wall_s": 1.0, "error": "ValueError: no"}, True),
        ({"kind": "failed", "wall_s": 1.0}, False),
        ({"kind": "resumed", "wall_s": 1.0}, False),
        ({"kind": "checkpoint_damaged", "wall_s": 1.0, "checkpoint": "checkpoint-000000005"}, True),
        ({"kind": "of a later version"}, True),
        ({}, False),
        (5, False),
    ],
)
def test_an_event_has_the_fields_of_its_kind(event: object, expected: bool) -> None:
    assert is_event(event) is expected
