"""What the cores (or the accelerator) of one rank can do: the best of several kernels at one precision."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Kernel = Callable[[], object]


def measure_ceiling(device: torch.device, seconds: float) -> dict[str, Any]:
    """FLOP/s of each kernel's fastest call, and which kernel won; fp32, on the threads torch has now."""
    kernels = {}
    for name, flop, kernel in _kernels(device):
        with true_fp32():
            times_s = _time_calls(kernel, device, seconds)
        kernels[name] = {
            "flops": flop / min(times_s),
            "median_flops": flop / float(np.median(times_s)),
            "n": len(times_s),
        }
    winner = max(kernels, key=lambda name: kernels[name]["flops"])
    return {"precision": "fp32", "flops": kernels[winner]["flops"], "kernel": winner, "kernels": kernels}


@contextmanager
def true_fp32() -> Iterator[None]:
    """Inside, fp32 means fp32 on GPUs too: tf32 is a precision of its own, with a ceiling many times higher."""
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = False
    try:
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed


def measure_here(seconds: float) -> dict[str, Any]:
    """The ceiling of this machine's first accelerator, or of all its cores where it has none."""
    return measure_ceiling(torch.device("cuda" if torch.cuda.is_available() else "cpu"), seconds)


def _kernels(device: torch.device) -> Iterator[tuple[str, float, Kernel]]:
    on_cpu = device.type == "cpu"
    size = 1024 if on_cpu else 8192
    # A generator of its own: measuring must not move the random numbers that training draws.
    random = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, device=device, generator=random) for _ in range(2))
    yield f"torch.mm {size}", 2.0 * size**3, lambda: torch.mm(a, b)
    if on_cpu:
        # numpy brings its own BLAS, which beats torch's on some processors.
        left, right = a.numpy().copy(), b.numpy().copy()
        yield f"numpy.matmul {size}", 2.0 * size**3, lambda: np.matmul(left, right)
    batch, channels, width = (8, 128, 28) if on_cpu else (128, 256, 56)
    x = torch.randn(batch, channels, width, width, device=device, generator=random)
    weight = torch.randn(channels, channels, 3, 3, device=device, generator=random)
    flop = 2.0 * 9 * channels * channels * width * width * batch
    yield "convolution 3x3 NCHW", flop, lambda: F.conv2d(x, weight, padding=1)
    x_last = x.to(memory_format=torch.channels_last)
    weight_last = weight.to(memory_format=torch.channels_last)
    yield "convolution 3x3 channels-last", flop, lambda: F.conv2d(x_last, weight_last, padding=1)


def _time_calls(kernel: Kernel, device: torch.device, seconds: float) -> list[float]:
    times_s: list[float] = []
    with torch.no_grad():
        for _ in range(3):
            kernel()
        _wait_for(device)
        stop = time.perf_counter() + seconds
        while len(times_s) < 3 or time.perf_counter() < stop:
            start = time.perf_counter()
            kernel()
            _wait_for(device)
            times_s.append(time.perf_counter() - start)
    return times_s


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
