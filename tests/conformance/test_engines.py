"""Every engine fulfils the protocol of train/engine.py: the same training as torch's, step for step, and resumed so."""

import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from tests.planned import EIGHT_CORES
from tests.worker_group import run_workers
from trainmark.data.source import DatasetSource, Streamed, Synthetic
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.event_files import read_events
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import Inference, InferenceStart
from trainmark.spec.registries import ENGINES
from trainmark.spec.run_folder import Places
from trainmark.store.new_run import write_run
from trainmark.train.checkpoints import write_state
from trainmark.train.engine import Data, Engine, RankContext, UnreadableStateError, load_engine
from trainmark.train.event_log import EventLog
from trainmark.train.inference import measure_inference
from trainmark.train.open_data import open_data
from trainmark.train.torch.process_group import barrier
from trainmark.workloads.find import find_card

NUMPY = "tests.numpy_engine:OFFER"  # stands for an engine of a third party
TESTED = [*ENGINES, NUMPY]
SMALL = (
    *("data.num_train=64", "data.num_eval=20", "train.batch_size=8", "train.epochs=2", "train.weight_decay=0.001"),
    *("launch.threads=1", "evaluate.batch_size=7", "measure.ceiling=false", "ensemble.members=1", "ensemble.workers=1"),
)
RATES = [0.05, 0.1, 0.02, 0.1, 0.05, 0.01]
ROWS = np.random.default_rng(3).permutation(48).reshape(6, 8)


def model_of(engine: str) -> str:
    """A model that both the engine and torch can build."""
    return "resnet-tiny" if engine in find_card("resnet-tiny").builders else "tests.numpy_engine:MLP"


def opened(tmp_path: Path, engine: str, *settings: str) -> tuple[Engine, Data, RankContext]:
    """An engine that is ready to train, with its data."""
    chosen = (*SMALL, f"train.engine={engine}", *settings)
    config, plan = make_plan(resolve_config([parse_setting(text) for text in chosen]), EIGHT_CORES)
    record = JobRecord(write_run(config, plan, EIGHT_CORES, Places.of(tmp_path)), config, EIGHT_CORES, plan.jobs[0])
    attempt = record.folder.attempt(0, 1)
    context = RankContext(record, record.job.ranks[0], attempt, EventLog(attempt.rank_events(0)))
    ready = load_engine(context)
    ready.set_up()
    data = open_data(context)
    ready.join()
    ready.build(data)
    return ready, data, context


def losses_of(engine: Engine, rows: NDArray[np.int64], rates: list[float]) -> list[float]:
    """The losses of steps at these rates; weight decay is doubled in every other step."""
    batches = engine.feed(rows, None)
    steps = [
        engine.step(batch, rate, 1.0 + step % 2) for step, (batch, rate) in enumerate(zip(batches, rates, strict=True))
    ]
    engine.clock.wait()
    return engine.clock.read(steps)


@pytest.mark.parametrize("name", TESTED)
def test_the_same_weights_and_batches_give_the_losses_of_torch(name: str, tmp_path: Path) -> None:
    model = f"model={model_of(name)}"
    ours, _, _ = opened(tmp_path / "ours", name, model)
    torchs, _, _ = opened(tmp_path / "torch", "torch", model)
    ours.set_weights(torchs.weights())
    expected = losses_of(torchs, ROWS, RATES)
    assert losses_of(ours, ROWS, RATES) == pytest.approx(expected, rel=1e-4)
    after, known = ours.weights(), torchs.weights()
    assert after.keys() == known.keys()
    for key, weight in after.items():
        np.testing.assert_allclose(weight, known[key], rtol=1e-3, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("name", TESTED)
def test_training_that_goes_on_from_a_state_is_bit_identical(name: str, tmp_path: Path) -> None:
    model = f"model={model_of(name)}"
    whole, _, _ = opened(tmp_path / "whole", name, model)
    first = losses_of(whole, ROWS[:3], RATES[:3])
    write_state(tmp_path / "state", whole.save)  # as checkpoints are written: a stream with a checksum
    rest = losses_of(whole, ROWS[3:], RATES[3:])
    resumed, _, _ = opened(tmp_path / "resumed", name, model)
    losses_of(resumed, ROWS[4:], RATES[4:])  # whatever it did before is forgotten
    resumed.load(resumed.read(tmp_path / "state"))
    assert losses_of(resumed, ROWS[3:], RATES[3:]) == rest != first
    for key, weight in resumed.weights().items():
        np.testing.assert_array_equal(weight, whole.weights()[key], err_msg=key)


@pytest.mark.parametrize("name", TESTED)
def test_a_file_that_holds_no_state_is_called_so(name: str, tmp_path: Path) -> None:
    engine, _, _ = opened(tmp_path, name, f"model={model_of(name)}")
    (tmp_path / "cut").write_bytes(b"PK\x03\x04")
    with pytest.raises(UnreadableStateError):
        engine.read(tmp_path / "cut")
    saved = BytesIO()
    engine.save(saved)
    (tmp_path / "cut").write_bytes(saved.getvalue()[:-100])
    with pytest.raises(UnreadableStateError):
        engine.read(tmp_path / "cut")


@pytest.mark.parametrize("name", TESTED)
def test_predictions_have_a_row_for_each_index_and_are_those_of_torch(name: str, tmp_path: Path) -> None:
    model = f"model={model_of(name)}"
    ours, data, _ = opened(tmp_path / "ours", name, model)
    torchs, torchs_data, _ = opened(tmp_path / "torch", "torch", model)
    ours.set_weights(torchs.weights())
    indices = np.array([3, 3, 19, 0, 7, 8, 9, 11, 2])
    predictions = [e.predict(_held_out(d), indices) for e, d in ((ours, data), (torchs, torchs_data))]
    assert predictions[0].shape == (9, 10) and predictions[0].dtype == np.float32
    np.testing.assert_allclose(predictions[0], predictions[1], atol=1e-5)
    np.testing.assert_array_equal(predictions[0][0], predictions[0][1])
    np.testing.assert_allclose(predictions[0].sum(axis=1), 1, atol=1e-5)
    # Predicting leaves the training alone.
    assert losses_of(ours, ROWS, RATES) == pytest.approx(losses_of(torchs, ROWS, RATES), rel=1e-4)


@pytest.mark.parametrize("name", TESTED)
def test_a_forward_pass_in_inference_mode_gives_the_predictions_and_leaves_the_training_alone(
    name: str, tmp_path: Path
) -> None:
    model = f"model={model_of(name)}"
    ours, data, _ = opened(tmp_path / "ours", name, model)
    assert not isinstance(data.train, Synthetic)
    _check_inference(ours, data.train, opened(tmp_path / "undisturbed", name, model)[0])


@pytest.mark.parametrize(
    "settings",
    [
        ("train.torch.memory_format=onednn",),
        ("train.torch.memory_format=contiguous", "train.torch.compiler=torchscript"),
    ],
    ids=["onednn", "torchscript"],
)
def test_torch_infers_with_the_compiled_form_of_the_training(settings: tuple[str, ...], tmp_path: Path) -> None:
    ours, data, _ = opened(tmp_path / "ours", "torch", *settings)
    assert not isinstance(data.train, Synthetic)
    _check_inference(ours, data.train, opened(tmp_path / "undisturbed", "torch", *settings)[0])


def _check_inference(engine: Engine, train: DatasetSource, undisturbed: Engine) -> None:
    """Compares forward passes with predictions, and the steps around them with those of an engine that makes none."""
    first, rest = losses_of(engine, ROWS[:3], RATES[:3]), slice(3, 6)
    forward = engine.prepare_inference()
    assert not isinstance(forward, str)
    for rows in (ROWS, ROWS[:, :1]):
        batches = list(engine.feed(rows, None))
        found = [np.asarray(forward(batch)) for batch in batches]
        engine.clock.wait()
        assert found[0].shape == (rows.shape[1], 10)
        np.testing.assert_allclose(np.concatenate(found), engine.predict(train, rows.reshape(-1)), atol=1e-5)
        forward = engine.prepare_inference()  # predicting may have changed the mode
        assert not isinstance(forward, str)
    assert losses_of(undisturbed, ROWS[:3], RATES[:3]) == first
    assert losses_of(engine, ROWS[rest], RATES[rest]) == losses_of(undisturbed, ROWS[rest], RATES[rest])


@pytest.mark.parametrize("name", TESTED)
def test_inference_is_timed_for_batches_and_for_single_samples(name: str, tmp_path: Path) -> None:
    settings = ("measure.inference=true", "measure.inference_seconds=0.01", "measure.inference_batch_size=4")
    engine, data, context = opened(tmp_path, name, f"model={model_of(name)}", *settings)
    measure_inference(context, engine, data)
    starts, found = _inference_of(context)
    assert [each.batch_size for each in starts] == [each.batch_size for each in found] == [4, 1]
    for each in found:
        assert each.reason is None and each.warmup_passes >= 3
        assert 10 <= len(each.latency_s) <= each.passes and min(each.latency_s) > 0
        assert each.over_s >= max(0.01, sum(each.latency_s) - 1e-6)


def test_inference_that_fails_is_unavailable_and_does_not_fail_the_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "model=tests.numpy_engine:MLP"
    engine, data, context = opened(tmp_path, NUMPY, model, "measure.inference=true", "train.batch_size=1")
    monkeypatch.setattr(engine, "_forward", lambda samples: np.zeros(10**15))
    measure_inference(context, engine, data)
    _, (only,) = _inference_of(context)  # a batch of one is measured once
    assert (only.batch_size, only.passes, only.latency_s) == (1, 0, [])
    assert str(only.reason).startswith("the forward pass of 1 sample failed: ") and "allocate" in str(only.reason)


def test_inference_is_not_measured_unless_it_is_asked_for(tmp_path: Path) -> None:
    engine, data, context = opened(tmp_path, NUMPY, "model=tests.numpy_engine:MLP")
    measure_inference(context, engine, data)
    assert _inference_of(context) == ([], [])


def _inference_of(context: RankContext) -> tuple[list[InferenceStart], list[Inference]]:
    events, _ = read_events(context.attempt.rank_events(0))
    starts = [event for event in events if isinstance(event, InferenceStart)]
    return starts, [event for event in events if isinstance(event, Inference)]


def _held_out(data: Data) -> DatasetSource:
    assert data.evaluation is not None and not isinstance(data.evaluation, Streamed)
    return data.evaluation


def test_torch_frees_samples_that_it_has_copied_to_its_device_and_keeps_their_labels(tmp_path: Path) -> None:
    _, data, _ = opened(tmp_path, "torch")
    held_out = _held_out(data)
    assert held_out.split.samples.nbytes == 0
    assert len(held_out.split.labels) == 20


@pytest.mark.parametrize("name", TESTED)
def test_an_engine_says_what_it_computes_on_and_with(name: str, tmp_path: Path) -> None:
    engine, data, context = opened(tmp_path, name, f"model={model_of(name)}")
    device = engine.set_up()
    assert device.name and device.uuid is None and device.threads == context.threads == 1
    assert set(ENGINES.load(name).packages) <= set(device.software)
    ready = engine.build(data)
    assert (ready.synthetic, ready.precision, ready.optimizer, ready.global_batch) == (False, "fp32", "sgd", 8)
    assert engine.why_bytes_uncounted() == "a single worker sends nothing"
    assert engine.peak_device_bytes() is None
    engine.barrier()  # of one rank: it does not wait for anyone
    engine.leave()


@pytest.mark.parametrize("name", TESTED)
def test_stamps_are_in_order_and_measure_the_time_between_steps(name: str, tmp_path: Path) -> None:
    clock = opened(tmp_path, name, f"model={model_of(name)}")[0].clock
    start = clock.stamp()
    time.sleep(0.05)
    end = clock.stamp()
    clock.wait()
    assert clock.num_finished([start, end]) == 2
    assert 0.05 <= clock.seconds_between(start, end) < 5


def meet(rank: int, folder: str) -> None:
    """Rank 1 comes to the barrier late."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    if rank == 1:
        time.sleep(0.5)
        Path(folder, "late").touch()
    barrier()
    assert Path(folder, "late").exists()
    dist.destroy_process_group()


def test_no_rank_of_torch_leaves_a_barrier_before_all_have_come(tmp_path: Path) -> None:
    run_workers(meet, (str(tmp_path),), 2)


def test_the_plan_refuses_what_an_engine_does_not_offer_and_names_what_it_does() -> None:
    def refusal(*settings: Any) -> str:
        chosen = [parse_setting(text) for text in (f"train.engine={NUMPY}", *settings)]
        with pytest.raises(Exception) as raised:
            make_plan(resolve_config(chosen), EIGHT_CORES)
        return str(raised.value)

    mlp = "model=tests.numpy_engine:MLP"
    assert "does not support train.optimizer=adam. Choose --set train.optimizer=sgd" in refusal(
        mlp, "train.optimizer=adam"
    )
    assert "trains with one worker, but there are 2" in refusal(mlp, "ensemble.workers=2", "ensemble.members=1")
    assert "has no model resnet-tiny. Choose another, or --set train.engine=torch." in refusal(
        "ensemble.workers=1", "ensemble.members=1"
    )
    assert "does not support launch.interop_threads. Remove it, or" in refusal(
        mlp, "ensemble.workers=1", "launch.interop_threads=2"
    )
    assert "train.torch.recompute is a setting of the engine torch" in refusal(
        mlp, "ensemble.workers=1", "train.torch.recompute=true"
    )
