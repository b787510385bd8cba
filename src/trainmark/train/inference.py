"""Speed of the trained model: forward passes in inference mode, timed on all ranks of a member at the same time."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trainmark.data.batching import Grouping, group
from trainmark.data.epochs import Rows
from trainmark.spec.files import one_line
from trainmark.spec.machine_events import Inference, InferenceStart
from trainmark.spec.units import counted
from trainmark.train.engine import Batch, Data, Engine, ForwardPass, RankContext

MIN_PASSES = 10
WARMUP_PASSES = 3  # the first compiles, the second may specialise
WARMUP_SHARE = 0.2  # of the measured time
MAX_LATENCIES = 2000  # kept per batch size
NUM_BATCHES = 3  # taken in turn; odd, so that the latencies kept (every 2nd, 4th, …) are of all of them


class Passes(NamedTuple):
    """Evenly spaced latencies of consecutive passes, the number of all of them, and the time they took."""

    latency_s: list[float]
    passes: int
    over_s: float


def measure_inference(context: RankContext, engine: Engine, data: Data) -> None:
    """Times passes of `measure.inference_batch_size` samples and of one, on batches that are in memory already.

    The member is trained already, so errors here do not fail it.
    """
    config = context.config
    if not config.measure.inference:
        return
    forward = engine.prepare_inference()
    for batch_size in dict.fromkeys((config.measure.inference_batch_size or config.train.batch_size, 1)):
        engine.barrier()  # the node is as busy as in training
        context.log.write(InferenceStart(batch_size=batch_size))
        context.log.write(_measure(engine, forward, data, batch_size, config.measure.inference_seconds))


def _measure(engine: Engine, forward: ForwardPass | str, data: Data, batch_size: int, seconds: float) -> Inference:
    if isinstance(forward, str):
        return Inference(batch_size=batch_size, reason=forward)
    try:
        rows = rows_to_time(data, batch_size)
        if isinstance(rows, str):
            return Inference(batch_size=batch_size, reason=rows)
        passes = None if data.shapes is None else [((batch_size, 1.0),)] * len(rows)
        batches = list(engine.feed(rows, None, passes))
        wait = engine.clock.wait
        warmup = time_passes(forward, batches, wait, WARMUP_PASSES, WARMUP_SHARE * seconds)
        found = time_passes(forward, batches, wait, MIN_PASSES, seconds)
    except Exception as error:  # noqa: BLE001  see measure_inference
        what = f"the forward pass of {counted(batch_size, 'sample')} failed"
        return Inference(batch_size=batch_size, reason=f"{what}: {one_line(error)}")
    return Inference(batch_size=batch_size, warmup_passes=warmup.passes, **found._asdict())


def rows_to_time(data: Data, batch_size: int) -> Rows | str:
    """Returns batches of the member's own training samples, the only ones that are staged, or why there are none.

    Images of unlike shape are batched by shape, and a small, a middling and a large batch are taken. One with more
    pixels than any pass of training might not fit into memory.
    """
    drawn = np.flatnonzero(data.counts).astype(np.int64)
    if data.shapes is None or data.largest_pass_px is None:
        return np.resize(drawn, (NUM_BATCHES, batch_size))
    shapes = data.shapes[drawn]
    wanted = Grouping(shapes, batch_size, 1, 1, len(drawn), 0, np.random.default_rng(0))
    found = [each for ((each,),) in group("nearest", wanted) if len(each) == batch_size]
    found = found or [np.resize(np.arange(len(drawn)), batch_size)]
    pixels = [batch_size * int(shapes[each].max(axis=0).prod()) for each in found]
    by_size = np.argsort(pixels, kind="stable")
    # The middle of each third of the batches.
    chosen = [int(by_size[(2 * part + 1) * len(found) // (2 * NUM_BATCHES)]) for part in range(NUM_BATCHES)]
    if (largest := max(pixels[number] for number in chosen)) > data.largest_pass_px:
        return (
            f"a batch of {counted(batch_size, 'image')} has {largest / 1e6:.3g} MP, but the largest pass of training "
            f"{data.largest_pass_px / 1e6:.3g} MP; choose a smaller measure.inference_batch_size"
        )
    return [drawn[found[number]] for number in chosen]


def time_passes(
    forward: ForwardPass, batches: list[Batch], wait: Callable[[], None], min_passes: int, seconds: float
) -> Passes:
    """Times at least `min_passes`, for at least `seconds`, each from its call until the device has finished.

    Beyond MAX_LATENCIES every second latency is dropped, and from then on every second pass is kept, and so on.
    """
    latencies: list[float] = []
    passes, stride, over_ns = 0, 1, 0
    wait()
    while passes < min_passes or over_ns < seconds * 1e9:
        began_ns = time.perf_counter_ns()
        forward(batches[passes % len(batches)])
        wait()
        elapsed_ns = time.perf_counter_ns() - began_ns
        if passes % stride == 0:
            latencies.append(elapsed_ns / 1e9)
            if len(latencies) > MAX_LATENCIES:
                latencies, stride = latencies[::2], 2 * stride
        passes += 1
        over_ns += elapsed_ns
    return Passes(latencies, passes, over_ns / 1e9)
