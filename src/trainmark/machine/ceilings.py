"""The compute ceiling of one rank's cores or accelerator: the best of several kernels at one precision."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from trainmark.machine.cpu_usage import CLOCK_TICK_S, CoreWatch
from trainmark.machine.instructions import has_fast

Format = Literal["fp32", "tf32", "bf16", "fp16", "int8"]

# Formats that a run's matrix products may use. Without hardware support, mixed precision and emulated int8 may be
# faster in fp32: the ceiling is the best of all formats.
FORMATS: dict[str, tuple[Format, ...]] = {
    "fp32": ("fp32",),
    "tf32": ("tf32",),
    "bf16-mixed": ("bf16", "fp32"),
    "fp16-mixed": ("fp16", "fp32"),
    "fp16": ("fp16",),
    "int8": ("int8", "fp32"),
}
ROUNDS = 8  # per kernel: of six or more, slowest to fastest is a 95 % interval
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Kernel(NamedTuple):
    """A matrix product or convolution, and its FLOP count."""

    name: str
    flop: float
    call: Callable[[], object]


class _Timed(NamedTuple):
    """A kernel in one format, with the durations of its calls per round."""

    kernel: Kernel
    kind: Format
    rounds_s: list[list[float]]

    @property
    def times_s(self) -> list[float]:
        """Durations of the calls of all rounds."""
        return [time_s for times_s in self.rounds_s for time_s in times_s]

    def flops(self, times_s: list[float]) -> float:
        """FLOP/s of the fastest of these calls."""
        return self.kernel.flop / min(times_s)

    def summary(self) -> dict[str, Any]:
        """The kernel's entry in the event."""
        times_s = self.times_s
        median = self.kernel.flop / float(np.median(times_s))
        return {"flops": self.flops(times_s), "median_flops": median, "n": len(times_s)}


def measure_ceiling(device: torch.device, seconds: float, precision: str = "fp32") -> dict[str, Any]:
    """Measures each kernel's peak FLOP/s at one precision, with torch's current threads, and picks the fastest.

    Kernels are interleaved in rounds. Each round has the fastest kernel's FLOP/s and the CPU time that other processes
    took on this process's cores. Unknown precisions are measured in fp32; unsupported kernels are skipped.
    """
    with onednn_enabled():
        timed = _warmed_up(device, seconds, precision)
        watch = CoreWatch()
        readings = []
        for number in range(ROUNDS):
            for each in timed:
                _time_calls(each, device, seconds * (number + 1) / ROUNDS)
            readings.append(watch.read())
    kernels = {each.kernel.name: each.summary() for each in timed}
    won = max(timed, key=lambda each: each.flops(each.times_s))
    on_accelerator = "load by other processes is monitored on CPU cores, not on accelerators"
    unwatched = watch.unwatched if device.type == "cpu" else on_accelerator
    return {
        "precision": precision,
        "flops": won.flops(won.times_s),
        "kernel": won.kernel.name,
        "kernels": kernels,
        "rounds": [
            {"flops": won.flops(times_s), **reading, **({} if unwatched is None else {"others_s": None})}
            for times_s, reading in zip(won.rounds_s, readings, strict=True)
            if times_s
        ],
        "cores": watch.num_cores,
        "clock_tick_s": CLOCK_TICK_S,
        "unwatched": unwatched,
    }


def _warmed_up(device: torch.device, seconds: float, precision: str) -> list[_Timed]:
    """Returns the kernels of the precision, each called up to three times; unsupported ones are skipped."""
    timed = []
    for kind in FORMATS.get(precision, FORMATS["fp32"]):
        for kernel in _kernels(device, kind):
            try:
                with tf32_allowed(kind == "tf32"), torch.no_grad():
                    spent_s = 0.0
                    for _ in range(3):
                        spent_s += _time_call(kernel.call, device)
                        if spent_s >= seconds:
                            break
            except RuntimeError:
                if kind == "fp32":
                    raise  # supported by every device, so this is a real error
                continue
            timed.append(_Timed(kernel, kind, []))
    return timed


def _time_calls(each: _Timed, device: torch.device, until_s: float) -> None:
    """Adds a round of calls, until the kernel has run for `until_s` in total; the first has at least one call."""
    times_s: list[float] = []
    spent_s = sum(each.times_s)
    with tf32_allowed(each.kind == "tf32"), torch.no_grad():
        while spent_s < until_s:
            times_s.append(_time_call(each.kernel.call, device))
            spent_s += times_s[-1]
    each.rounds_s.append(times_s)


@contextmanager
def tf32_allowed(allowed: bool) -> Iterator[None]:
    """Allows or forbids TF32 for fp32 products on GPUs: a separate precision, whose ceiling is many times higher."""
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = allowed
    try:
        yield
    finally:
        for backend, was_allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = was_allowed


@contextmanager
def onednn_enabled() -> Iterator[None]:
    """Enables oneDNN, also in a run without it: the ceiling is what the machine can do."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = True  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def measure_here(seconds: float) -> dict[str, Any]:
    """Measures the fp32 ceiling of this machine's first accelerator, or of all its cores if it has none."""
    return measure_ceiling(torch.device("cuda" if torch.cuda.is_available() else "cpu"), seconds)


def has_exact_int_mm(device: torch.device) -> bool:
    """Whether int8 matrix products are exact and accelerated by hardware.

    Without dot-product instructions oneDNN shifts one operand to 0…255 and adds two products in 16 bits, which
    saturates: 2 × 255 × 127 > 2^15.
    """
    if device.type == "cpu" and not has_fast("int8"):
        return False
    largest = torch.full((32, 64), 127, dtype=torch.int8, device=device)
    try:
        sums = torch._int_mm(largest, largest.t())
    except RuntimeError:
        return False
    return bool((sums == 64 * 127 * 127).all())


def _kernels(device: torch.device, kind: Format) -> Iterator[Kernel]:
    # A separate generator: measuring must not advance the random state of training.
    random = torch.Generator(device).manual_seed(0)
    if kind == "int8":
        if has_exact_int_mm(device):
            yield from _int8_matrix_products(device, random)
        return
    is_slow = device.type == "cpu" and kind in ("bf16", "fp16") and not has_fast(kind)
    yield from _matrix_products(device, kind, random, is_slow)
    yield from _convolutions(device, kind, random, is_slow)


def _matrix_products(device: torch.device, kind: Format, random: torch.Generator, is_slow: bool) -> Iterator[Kernel]:
    size = 8192 if device.type != "cpu" else 512 if is_slow else 1024
    a, b = (torch.randn(size, size, device=device, generator=random).to(TYPES[kind]) for _ in range(2))
    yield Kernel(_named(f"torch.mm {size}", kind), 2.0 * size**3, lambda: torch.mm(a, b))
    if device.type == "cpu" and kind == "fp32":
        # numpy brings its own BLAS, which beats torch's on some processors.
        left, right = a.numpy().copy(), b.numpy().copy()
        yield Kernel(f"numpy.matmul {size}", 2.0 * size**3, lambda: np.matmul(left, right))


def _convolutions(device: torch.device, kind: Format, random: torch.Generator, is_slow: bool) -> Iterator[Kernel]:
    batch, channels, width = (128, 256, 56) if device.type != "cpu" else (1 if is_slow else 8, 128, 28)
    x = torch.randn(batch, channels, width, width, device=device, generator=random).to(TYPES[kind])
    weight = torch.randn(channels, channels, 3, 3, device=device, generator=random).to(TYPES[kind])
    flop = 2.0 * 9 * channels * channels * width * width * batch
    yield Kernel(_named("convolution 3x3 NCHW", kind), flop, lambda: F.conv2d(x, weight, padding=1))
    x_last = x.to(memory_format=torch.channels_last)
    weight_last = weight.to(memory_format=torch.channels_last)
    yield Kernel(_named("convolution 3x3 channels-last", kind), flop, lambda: F.conv2d(x_last, weight_last, padding=1))


def _int8_matrix_products(device: torch.device, random: torch.Generator) -> Iterator[Kernel]:
    size = 1024 if device.type == "cpu" else 8192
    a, b = (torch.randint(-127, 128, (size, size), dtype=torch.int8, device=device, generator=random) for _ in range(2))
    flop = 2.0 * size**3
    yield Kernel(f"torch._int_mm {size} int8", flop, lambda: torch._int_mm(a, b))
    yield Kernel(f"torch._int_mm {size} int8, right one transposed", flop, lambda: torch._int_mm(a, b.t()))


def _named(name: str, kind: Format) -> str:
    return name if kind == "fp32" else f"{name} {kind}"


def _time_call(call: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
