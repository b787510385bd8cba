"""Memory of this process: the peak of each interval, its limit, and what is counted alive on shapes alone."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from trainmark.machine import resident
from trainmark.machine.resident import PeakMeter, take_peak_resident_bytes
from trainmark.train.torch.protocols import Pass, StepPasses
from trainmark.workloads.flops.liveness import Liveness

MIB = 2**20


def can_reset() -> bool:
    try:
        take_peak_resident_bytes()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not can_reset(), reason="the kernel does not reset the peak of a process")
def test_a_peak_is_that_of_its_interval_and_the_largest_is_kept() -> None:
    meter = PeakMeter("host", take_peak_resident_bytes)
    meter.read()  # the peak of all tests before
    before = meter.read()
    block = np.ones(200 * MIB, np.uint8)
    high = meter.read()
    del block
    meter.read()  # began with the block
    low = meter.read()
    assert before is not None and high is not None and low is not None
    assert high - before > 150 * MIB and high - low > 150 * MIB
    assert meter.largest_bytes is not None and meter.largest_bytes >= high


def test_a_peak_that_cannot_be_reset_is_unavailable_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resident, "CLEAR", tmp_path / "missing" / "clear_refs")
    meter = PeakMeter("host", take_peak_resident_bytes)
    assert meter.read() is None and meter.read() is None
    assert meter.reason is not None and meter.reason.startswith("the kernel does not reset the peak of a process (File")


def test_allocations_beyond_the_limit_fail_and_others_do_not() -> None:
    code = f"""
import numpy
from trainmark.machine.resident import limit_memory
limit_memory(1.0)
numpy.ones(200 * {MIB}, numpy.uint8)
try:
    numpy.ones(1100 * {MIB}, numpy.uint8)
except MemoryError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] != 2**30  # that of another process


def test_live_tensors_are_counted_until_they_are_freed() -> None:
    with torch.device("meta"), Liveness() as live:
        kept = torch.empty(1000)  # 4 kB
        for _ in range(3):
            kept = kept + 1  # twice 4 kB, while the old one is alive
        view = kept[:10]  # no memory of its own
        del kept
        torch.empty(500)
    assert live.peak_bytes == 8000 and view.shape == (10,)


def test_a_chain_of_layers_holds_its_activations_and_two_gradients() -> None:
    # 8 samples × 100 values in fp32 are 3200 B: the inputs of four layers, which the gradients of their weights need,
    # and the outputs. Beside them the weights, 4 × 40,000 B, and in the backward pass gradients.
    with torch.device("meta"):
        model, inputs = nn.Sequential(*(nn.Linear(100, 100, bias=False) for _ in range(4))), torch.empty(8, 100)
        with Liveness() as live:
            live.add(inputs)
            outputs = model(inputs)
            forward = live.peak_bytes
            torch.autograd.backward(outputs, torch.empty_like(outputs))
    assert forward == 5 * 3200 + 160_000
    assert forward + 40_000 < live.peak_bytes < forward + 160_000 + 2 * 3200


def test_passes_are_taken_one_by_one_and_the_wait_for_them_is_counted() -> None:
    taken: list[int] = []

    def others() -> Iterator[Pass]:
        for number in (1, 2):
            taken.append(number)
            yield Pass(torch.full((1,), number), torch.zeros(1))

    passes = StepPasses(Pass(torch.zeros(1), torch.zeros(1)), others(), 2)
    assert len(passes) == 3 and taken == []
    seen = []
    for samples in passes:
        seen.append(int(samples.inputs))
        assert taken == list(range(1, len(seen)))  # none ahead
    assert seen == [0, 1, 2] and passes.waited_ns > 0
    assert passes.first is None  # not kept for the others
