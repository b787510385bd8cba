"""Ceilings: kernels of the precision's own formats, named after them, timed in bounded time."""

import itertools
import time

import pytest
import torch

from trainmark.machine import ceilings
from trainmark.machine.ceilings import has_exact_int_mm, measure_ceiling
from trainmark.spec.registries import PRECISIONS

CPU = torch.device("cpu")
FP32 = {"torch.mm 1024", "numpy.matmul 1024", "convolution 3x3 NCHW", "convolution 3x3 channels-last"}


def test_every_precision_has_its_formats() -> None:
    assert set(ceilings.FORMATS) == set(PRECISIONS)


@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed", "fp16-mixed", "fp16", "int8"])
def test_the_ceiling_is_the_best_of_the_kernels_a_run_may_use(precision: str) -> None:
    measured = measure_ceiling(CPU, 0.001, precision)
    kernels = measured["kernels"]
    short = precision.removesuffix("-mixed")
    assert measured["precision"] == precision
    assert measured["flops"] == kernels[measured["kernel"]]["flops"] == max(k["flops"] for k in kernels.values())
    others = set(kernels) - FP32
    assert (set(kernels) >= FP32) == (precision != "fp16")
    assert all(short in name.split() or f"{short}," in name.split() for name in others)
    assert bool(others) == (precision != "fp32" and (precision != "int8" or has_exact_int_mm(CPU)))


def test_a_precision_of_a_plugin_is_measured_in_fp32() -> None:
    assert set(measure_ceiling(CPU, 0.001, "posit8")["kernels"]) == FP32


def test_a_slow_kernel_is_called_twice_and_a_fast_one_for_the_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = itertools.count(), itertools.count()

    def call(calls: "itertools.count[int]", seconds: float) -> None:
        next(calls)
        time.sleep(seconds)

    kernels = (
        ceilings.Kernel("slow", 1.0, lambda: call(slow, 0.05)),
        ceilings.Kernel("fast", 1.0, lambda: call(fast, 0.001)),
    )
    monkeypatch.setattr(ceilings, "_kernels", lambda *_: iter(kernels))
    found = measure_ceiling(CPU, 0.04)
    assert (next(slow), found["kernels"]["slow"]["n"]) == (2, 1)  # one to warm up, one timed
    assert found["kernels"]["fast"]["n"] == next(fast) - 3 >= 3
    assert found["kernel"] == "fast"
    assert 1 <= len(found["rounds"]) <= ceilings.ROUNDS
    assert max(each["flops"] for each in found["rounds"]) == found["flops"]


def test_the_ceiling_is_measured_with_onednn_also_in_a_run_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[bool]()
    kernel = ceilings.Kernel("kernel", 1.0, lambda: seen.append(bool(torch.backends.mkldnn.enabled)))
    monkeypatch.setattr(ceilings, "_kernels", lambda *_: iter([kernel]))
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    measure_ceiling(CPU, 0.001)
    assert set(seen) == {True}
    assert not torch.backends.mkldnn.enabled


def test_a_kernel_that_does_not_exist_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("not implemented for 'Half'")

    multiply = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b: refuse() if a.dtype == torch.float16 else multiply(a, b))
    names = set(measure_ceiling(CPU, 0.001, "fp16")["kernels"])
    assert names == {"convolution 3x3 NCHW fp16", "convolution 3x3 channels-last fp16"}


def test_measuring_leaves_the_random_numbers_of_training_alone() -> None:
    before = torch.get_rng_state()
    measure_ceiling(CPU, 0.001, "int8")
    assert torch.equal(torch.get_rng_state(), before)
