"""Events are read back as their declared types, whichever version wrote them; what is no event is damage."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.run_events import AFFINITY
from trainmark.spec.event_files import KINDS, DamagedLineError, parse_event, read_event_file, read_events
from trainmark.spec.events import DataReady, EngineReady, EpochStop, Event, Failed, RankStarted, Steps
from trainmark.spec.machine_events import Ceiling, Usage
from trainmark.train.event_log import EventLog

ROUND = {"flops": 1e9, "over_s": 0.1, "others_s": None}
CEILING = {"kind": "ceiling", "wall_s": 1.0, "flops": 1e9, "kernel": "k"}
WATCHED = {**CEILING, "rounds": [ROUND], "cores": 1, "clock_tick_s": 0.01, "unwatched": None}
STEPS = {"kind": "steps", "wall_s": 1, "first_step": 0, "step_s": [0.5], "wait_s": [0], "loss": [None]}


@pytest.mark.parametrize(
    "line",
    [
        {key: value for key, value in WATCHED.items() if key != "unwatched"},
        {**WATCHED, "rounds": [{"flops": 1e9}]},
        {"kind": "failed", "wall_s": 1.0},
        {"kind": "failed", "error": "without a clock"},
        {"kind": "resumed", "wall_s": 1.0},
        {**STEPS, "step_s": ["0.5"]},
        {**STEPS, "loss": [float("nan")]},
        {"kind": 5, "wall_s": 1.0},
        {},
        5,
    ],
)
def test_a_line_without_the_fields_of_its_kind_is_damaged(line: object) -> None:
    with pytest.raises(DamagedLineError):
        parse_event(json.dumps(line))


def test_kinds_of_later_versions_are_skipped_and_their_further_fields_ignored(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"kind": "of a later version", "wall_s": 1.0}\n'
        '{"kind": "finished", "wall_s": 1.0, "mood": "good"}\n'
        '{"kind": "failed"}\n'
        f"{'[' * 5000}\n"
    )
    events, damaged = read_event_file(path, is_over=True)
    assert [event.kind for event in events] == ["finished"]
    assert damaged == (3, 4)
    assert read_events(path)[0] == list(events)


def test_fields_of_parts_that_later_versions_have_added_are_ignored() -> None:
    event = parse_event(json.dumps({"kind": "rank_started", "wall_s": 1.0, "affinity": {**AFFINITY, "smt": True}}))
    assert isinstance(event, RankStarted)
    assert event.affinity.model_dump(exclude_unset=True) == AFFINITY


# As earlier versions wrote them.
OLD: list[tuple[str, type[Event], dict[str, Any]]] = [
    (
        '{"kind":"rank_started","wall_s":1.5,"monotonic_s":2.5,"host":"n1","pid":7,"rank":0,"device":"cpu","affinity":'
        '{"cores_asked":"0","cores_allowed":"0","threads_asked":1,"threads_running":1,"verified":true},'
        '"environment":{"OMP_NUM_THREADS":"1"},"torch":"2.9.0","torch_isa":"AVX2"}',
        RankStarted,
        {"host": "n1", "pid": 7, "device_uuid": None, "allocator": None, "environment": {"OMP_NUM_THREADS": "1"}},
    ),
    (
        '{"kind":"data_ready","wall_s":1.5,"monotonic_s":2.5,"draws":400,"fingerprint":"abc"}',
        DataReady,
        {"draws": 400, "synthetic": False, "kept": None},
    ),
    (
        '{"kind":"ceiling","wall_s":1.5,"monotonic_s":2.5,"flops":5e10,"kernel":"torch.mm 1024","kernels":{}}',
        Ceiling,
        {"flops": 5e10, "phase": "before", "rounds": None},
    ),
    (
        '{"kind":"steps","wall_s":1.5,"monotonic_s":2.5,"first_step":3,"step_s":[0.5],"wait_s":[0.1],"loss":[2]}',
        Steps,
        {"first_step": 3, "loss": [2.0], "learning_rate": []},
    ),
    (
        '{"kind":"epoch_stop","wall_s":1.5,"monotonic_s":2.5,"epoch":0,"next_step":4,"samples":40,"epoch_s":2.0,'
        '"harness_s":0.01,"sent_bytes":null,"sent_reason":"a single worker sends nothing"}',
        EpochStop,
        {"samples": 40, "sent_bytes": None, "sent_reason": "a single worker sends nothing", "staleness": []},
    ),
    (
        '{"kind":"usage","wall_s":1.5,"monotonic_s":2.5,"over_s":1.0,"cpu":null,"node_cpu":null,'
        '"processes":{"cpu_s":0.5,"resident_bytes":9,"processes":1},"network":{"eth0":{"received":3,"sent":1}},'
        '"loopback_bytes":5}',
        Usage,
        {"cpu": None, "loopback_bytes": 5, "accelerators": None, "unavailable": {}},
    ),
    (
        '{"kind":"engine_ready","wall_s":1.5,"monotonic_s":2.5,"precision":"fp32","compiler":"none"}',
        EngineReady,
        {"precision": "fp32", "compiler": "none", "replicas": None},
    ),
]


@pytest.mark.parametrize(("line", "kind", "expected"), OLD, ids=[kind.__name__ for _, kind, _ in OLD])
def test_events_of_earlier_versions_are_read(line: str, kind: type[Event], expected: dict[str, Any]) -> None:
    event = parse_event(line)
    assert type(event) is kind
    assert (event.wall_s, event.monotonic_s) == (1.5, 2.5)
    assert event.model_dump(include=set(expected)) == expected


def test_the_options_of_an_engine_are_those_that_it_has() -> None:
    line = '{"kind":"engine_ready","wall_s":1.5,"precision":"fp32","further":{"jit":true}}'
    event = parse_event(line)
    assert isinstance(event, EngineReady)
    assert event.options() == {"precision": "fp32", "jit": True}


def test_a_field_that_is_not_declared_cannot_be_written() -> None:
    with pytest.raises(ValidationError):
        Failed(error="e", errno=5)  # type: ignore[arg-type]


def test_what_nobody_set_is_left_out_and_null_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventLog(path).write(EpochStop(epoch=0, next_step=4, samples=40, epoch_s=2.0, harness_s=0.01, waited_s=None))
    line = json.loads(path.read_text())
    assert list(line) == [
        *("kind", "wall_s", "monotonic_s", "epoch", "next_step", "samples", "epoch_s", "harness_s", "waited_s")
    ]
    assert (line["kind"], line["waited_s"], line["samples"]) == ("epoch_stop", None, 40)


def test_an_error_with_a_name_that_is_not_unicode_is_still_an_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventLog(path).write(Failed(error="no file 'm\udcfcller'", type="OSError", traceback="…"))
    (event,), damaged = read_event_file(path, is_over=True)
    assert isinstance(event, Failed)
    assert (event.error, damaged) == ("no file 'm?ller'", ())


def test_every_kind_says_in_one_sentence_what_happened() -> None:
    for kind in KINDS.values():
        assert str(kind.__doc__).endswith(".") and kind.__doc__ != Event.__doc__
