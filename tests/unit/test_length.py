"""The length of a training in steps or minutes: its end, learning rate, progress, estimate and figures."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.planned import planned_config
from tests.run_events import as_event
from tests.unit.test_estimate import R50, estimate
from tests.unit.test_progress_table import written_member as write_events
from tests.unit.test_target import evaluated
from tests.unit.written_events import written_member, written_run
from trainmark.collect.build import _epochs_done
from trainmark.collect.compute import compute_metric
from trainmark.collect.progress import ProgressReader
from trainmark.collect.reading import _gap_in
from trainmark.collect.warnings import find_warnings
from trainmark.report.progress_table import progress_line
from trainmark.spec.length import total_epochs
from trainmark.spec.plan import Job, Plan, Rank
from trainmark.spec.registries import METRICS
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.status import StoredSpeed
from trainmark.train import step_recorder
from trainmark.train.checkpoints import Position
from trainmark.train.end_of_training import EndOfTraining
from trainmark.train.engine import HostClock, RankContext
from trainmark.train.event_log import EventLog
from trainmark.train.loop import _progress, _rates
from trainmark.train.step_recorder import StepRecorder
from trainmark.train.traffic import Traffic


class OneStore:
    """A key-value store in this process, as the ranks of a member share one."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def add(self, key: str, amount: int, /) -> int:
        self.values[key] = self.values.get(key, 0) + amount
        return int(self.values[key])

    def set(self, key: str, value: str, /) -> None:
        self.values[key] = value

    def get(self, key: str, /) -> bytes:
        return str(self.values[key]).encode()

    def check(self, keys: list[str], /) -> bool:
        return all(key in self.values for key in keys)


def context_of(rank: int = 0, workers: int = 1, **train: Any) -> RankContext:
    config = planned_config(train=train)
    record = SimpleNamespace(config=config, job=SimpleNamespace(ranks=tuple(range(workers)), member=0))
    return RankContext(cast(Any, record), cast(Any, SimpleNamespace(rank=rank)), cast(Any, None), cast(Any, None))


def rates_of(position: Position, per_epoch: int, **train: Any) -> list[float]:
    recipe = {"learning_rate": 1.0, "rate_scaling": "none", "warmup_epochs": 0.0, "schedule": "polynomial"}
    context = context_of(**recipe, **train)
    return [rate for rate, _ in _rates(context, _progress(context, position, per_epoch))]


def test_the_schedule_is_as_long_as_the_steps() -> None:
    # Ten steps of epochs of four: the third epoch has the last two, 0.2 and 0.1 of the way to zero.
    assert rates_of(Position(), 4, steps=10) == pytest.approx([1.0, 0.9, 0.8, 0.7])
    assert rates_of(Position(8, 2), 4, steps=10)[:2] == pytest.approx([0.2, 0.1])


def test_a_training_of_minutes_keeps_the_last_rate_beyond_its_epochs() -> None:
    assert rates_of(Position(4, 1), 4, epochs=2, minutes=1) == pytest.approx([0.5, 0.375, 0.25, 0.125])
    assert rates_of(Position(8, 2), 4, epochs=2, minutes=1) == pytest.approx([0.125] * 4)


def test_steps_end_within_an_epoch_or_after_many() -> None:
    end = EndOfTraining(context_of(steps=10), None, 4)
    assert (end.steps_left(0), end.steps_left(8)) == (10, 2)
    assert [end.has_come(step, lambda: 1e9) for step in (3, 9, 10)] == [False, False, True]
    assert [total_epochs(context_of(**train).config.train, 4) for train in ({"steps": 10}, {"epochs": 6})] == [3, 6]


def test_time_ends_training_at_its_first_step_beyond_the_limit_but_never_before_three() -> None:
    end = EndOfTraining(context_of(minutes=0.5), None, 4)
    assert end.steps_left(7) is None
    assert [end.has_come(step, lambda step=step: 10.0 * step) for step in (1, 2, 3)] == [False, False, True]  # type: ignore[misc]
    late = EndOfTraining(context_of(minutes=0.5), None, 4)
    assert [late.has_come(step, lambda: 31.0) for step in (1, 2, 3)] == [False, False, True]


class SlowDevice(HostClock):
    """A device that takes 10 s per step and has finished the first two of those submitted."""

    def num_finished(self, stamps: list[int]) -> int:
        return min(2, len(stamps))

    def seconds_between(self, start: int, end: int) -> float:
        return 10.0


def test_steps_that_wait_on_the_device_count_with_the_time_they_will_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_recorder, "SECONDS_BETWEEN_BLOCKS", 0.0)
    recorder = StepRecorder(EventLog(tmp_path / "events"), SlowDevice(), Traffic("none"), trained_s=100.0)
    recorder.start_epoch(0, 0)
    recorder.add(0, 1.0, 0.1)
    assert 100 <= recorder.trained_s() < 110  # nothing waits
    monkeypatch.setattr(step_recorder, "SECONDS_BETWEEN_BLOCKS", 1e9)
    for _ in range(4):
        recorder.add(0, 1.0, 0.1)
    monkeypatch.setattr(step_recorder, "SECONDS_BETWEEN_BLOCKS", 0.0)
    recorder.add(0, 1.0, 0.1)  # five submitted, two finished: three wait
    assert 130 <= recorder.trained_s() < 140
    recorder.stop_epoch()
    assert 100 <= recorder.trained_s() < 110


@pytest.mark.parametrize("ahead", [0, 1])
def test_ranks_whose_clocks_differ_end_at_the_same_step(ahead: int) -> None:
    # Rank 0 is out of time after step 5, rank 1 after step 7; one of them may be a step ahead of the other.
    store, ended = OneStore(), {0: 0, 1: 0}
    ends = {rank: EndOfTraining(context_of(rank, 2, minutes=1), store, 4) for rank in (0, 1)}
    limit = {0: 5, 1: 7}
    for step in range(1, 20):
        for rank in (1, 0):
            at = step + ahead * rank
            if not ended[rank] and ends[rank].has_come(at, lambda at=at, rank=rank: 60.0 * (at >= limit[rank])):  # type: ignore[misc]
                ended[rank] = at
    assert ended[0] == ended[1]
    assert 7 < ended[0] <= 10


def test_all_ranks_hear_from_rank_0_that_the_target_is_reached() -> None:
    store = OneStore()
    first, second = (
        EndOfTraining(context_of(rank, 2, stop_at_target=True), store, 4) for rank in (0, 1)
    )  # the target is 0.8
    assert [first.is_reached_by(0.79, 0), second.is_reached_by(None, 0)] == [False, False]
    assert [first.is_reached_by(0.8, 1), second.is_reached_by(None, 1)] == [True, True]
    assert not EndOfTraining(context_of(), None, 4).is_reached_by(0.99, 0)


def line_after_a_step(folder: Path, **train: Any) -> str:
    """What is shown after the first of two steps per epoch, of 0.5 s."""
    run, config = RunFolder(folder), planned_config(train={"batch_size": 32, **train})
    plan = Plan(1, 1, 1, "s", 1, 1, 1, 0, (Job(0, 0, (Rank(0, "n", 0, (0,), None),)),))
    write_events(run, "rank_started", "data_ready", "run_start", "epoch_start", "steps")
    return progress_line(ProgressReader(run, config, plan).read()).partition("; ")[2]


def test_progress_counts_down_the_steps_or_the_time(tmp_path: Path) -> None:
    figures = "loss 2.250 64 samples/s"
    assert line_after_a_step(tmp_path / "a", steps=5) == f"member 0 epoch 1/3 {figures}, 2 s left"
    assert line_after_a_step(tmp_path / "b", minutes=0.5) == f"member 0 epoch 1 {figures}, 29.5 s left"


def test_the_estimate_is_of_the_steps_or_minutes() -> None:
    # 10 steps of 32 samples of 24.3 GFLOP are the 320 samples of the estimate of one epoch.
    stored = StoredSpeed("before", ceiling_flops=100e9, share=0.2)
    steps, _ = estimate(f"{R50} train.steps=10", stored)
    assert steps.seconds == pytest.approx((4 + 7776 / 26, 15 + 7776 / 14), rel=1e-3)
    minutes, _ = estimate(f"{R50} train.minutes=10 ensemble.members=4", stored)
    assert minutes.seconds == pytest.approx((2 * 604, 2 * 615), rel=0.05)  # to whole steps, of up to 60 s
    unknown, lines = estimate("model_settings.width=40 train.minutes=10", None)
    assert unknown.seconds == (604, 615)
    assert lines[0].startswith("estimated time: about 10 min (without evaluations: the cost of resnet-tiny with")


def test_a_long_run_of_steps_is_advised_to_make_fewer_of_them() -> None:
    _, lines = estimate(f"{R50} train.steps=100000", StoredSpeed("before", 100e9, 0.2))
    assert lines[2].endswith("40 steps suffice: --members 2 --set train.steps=40 --set data.num_train=1280.")
    _, lines = estimate(f"{R50} train.minutes=100", StoredSpeed("before", 100e9, 0.2))
    assert lines[2].endswith("--set train.steps=40 --set data.num_train=1280, without train.minutes.")


def test_figures_of_an_epoch_that_was_cut_short() -> None:
    # 40 steps in 4 s, then 10 in 1 s; each of 10 samples of 100 FLOP.
    run = written_run(evaluated(0, 0.1, 0.2, last_steps=10), train={"steps": 50})
    (member,) = run.members
    assert _epochs_done(run, member) == 1.25
    assert compute_metric("flops", run).value == pytest.approx(50_000 / 5)
    whole = compute_metric("epoch_time_s", run)
    assert (whole.value, whole.n) == (4.0, 1)
    cut = written_run(evaluated(0, 0.2, last_steps=10), train={"steps": 10})
    assert compute_metric("epoch_time_s", cut).reason == "no member trained a whole epoch"
    assert compute_metric("flops", cut).value == pytest.approx(10_000)


def with_length(**train: Any) -> str:
    """The advice on a member of 40 steps, one quarter of an epoch, of which the first took 40 s longer."""
    plain = written_member(0)
    told: dict[str, dict[str, Any]] = {
        "epoch_start": {"step": 0},
        "steps": {"step_s": [40.1] + [0.1] * 39, "wait_s": [0.0] * 40},
        "epoch_stop": {"epoch_s": 44.0, "steps_per_epoch": 160, "next_step": 40},
    }
    events = tuple(
        as_event(**{**e.model_dump(exclude_unset=True), "kind": e.kind, **told.get(e.kind, {})})
        for e in plain.events[0]
    )
    run = written_run(type(plain)(**{**plain.__dict__, "events": (events,)}), train=train)
    metrics = {name: compute_metric(name, run) for name in METRICS}
    (line,) = [each for each in find_warnings(run, metrics, {"members": []}, {}) if "over the whole training" in each]
    return line.partition("after about ")[2]


def test_the_advice_to_train_longer_is_in_the_unit_of_the_length() -> None:
    # 40 s are 5 % of 800 s: 760 s of steps of 0.1 s; in epochs of 16 s 47.5, so 48.
    assert with_length(steps=40) == "13 min 20 s of training: --set train.steps=7600"
    assert with_length(minutes=1) == "13 min 20 s of training: --set train.minutes=13.4"
    assert with_length() == "13 min 28 s of training: --set train.epochs=48"


def test_steps_that_are_missing_at_the_end_are_noticed_whatever_ends_the_training() -> None:
    events = [
        *(as_event(kind=kind, epoch=0) for kind in ("rank_started", "data_ready", "run_start")),
        as_event(kind="model_ready", conventions={}),
        as_event(kind="epoch_start", epoch=0, step=0),
        as_event(kind="steps", first_step=0, step_s=[0.1] * 3),
        as_event(kind="epoch_stop", epoch=0, next_step=3, epoch_s=0.3, steps_per_epoch=5),
        as_event(kind="memory"),
    ]
    train = planned_config(train={"minutes": 1.0}).train
    assert _gap_in((*events, as_event(kind="run_stop", step=3)), 0, train) is None
    assert _gap_in((*events, as_event(kind="run_stop", step=5)), 0, train) == "lacks steps 3 to 4"
