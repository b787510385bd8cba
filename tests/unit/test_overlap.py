"""On a GPU, exchanges run on a stream of their own beside the backward pass, and what they cost is told."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainmark.train.torch.communication.averaged_gradients import AveragedGradients, ExchangeQueue, WireReduction
from trainmark.train.torch.communication.wire import Cast, Encoder
from trainmark.train.torch.protocols import WorkerGroup

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
CYCLES = 200_000_000  # of the GPU's clock: about 0.1 s


def elapsed_s(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def moment() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


@pytest.fixture
def alone() -> Iterator[WorkerGroup]:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{Path(folder) / 'store'}", rank=0, world_size=1)
        yield WorkerGroup(0, ("here",), dist.group.WORLD, torch.device("cuda", 0))
        dist.destroy_process_group()


def test_an_exchange_runs_beside_the_stream_that_asked_for_it() -> None:
    device = torch.device("cuda", 0)
    queue, values = ExchangeQueue(device), torch.zeros(1000, device=device)
    torch.cuda._sleep(1)  # the first call loads the kernel
    torch.cuda.synchronize()
    start = moment()
    torch.cuda._sleep(CYCLES)
    alone_s = elapsed_s(start, moment())

    def exchange() -> Tensor:
        torch.cuda._sleep(CYCLES)
        return values.add_(1)

    start = moment()
    values += 1  # the exchange must see it
    futures = [queue.submit(exchange)]
    torch.cuda._sleep(CYCLES)
    total = futures[0].wait() * 2
    both_s = elapsed_s(start, moment())
    assert total.tolist() == [4.0] * 1000
    assert both_s < 1.5 * alone_s


def test_the_time_that_gradients_keep_the_stream_waiting_is_told(alone: WorkerGroup) -> None:
    def exchange(values: Tensor, encoder: Encoder) -> None:
        torch.cuda._sleep(CYCLES)

    torch.cuda._sleep(1)
    torch.cuda.synchronize()
    start = moment()
    torch.cuda._sleep(CYCLES)
    slept_s = elapsed_s(start, moment())
    communicator = AveragedGradients(alone, WireReduction(alone, Cast(torch.float32, 0.0), exchange))
    model = communicator.wrap(nn.Linear(8, 8).cuda())
    communicator.facts()
    for _ in range(3):
        model(torch.ones(4, 8, device="cuda")).sum().backward()
    # The model is small: its backward pass ends at once, and three exchanges of one bucket are waited for.
    assert communicator.facts()["waited_s"] == pytest.approx(3 * slept_s, rel=0.2)
    assert communicator.facts()["waited_s"] == 0
    weight = next(model.parameters())
    assert weight.grad is not None and torch.equal(weight.grad, torch.full_like(weight, 12.0))
