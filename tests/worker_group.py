"""Groups of worker processes, forked from one that has imported torch, which takes longer than most checks."""

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch.multiprocessing as mp

from tests.waiting import TIMEOUT_S

LOADED = ["torch._dynamo", "torch.distributed.tensor", "trainmark.train.torch.communication.allreduce"]


def run_workers(work: Callable[..., None], arguments: tuple[Any, ...], workers: int) -> None:
    """Runs `work(rank, *arguments)` in each worker; fails the test if one fails or they hang."""
    multiprocessing.set_forkserver_preload(LOADED)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    context = mp.start_processes(
        _work, args=(work, arguments, environment), nprocs=workers, join=False, start_method="forkserver"
    )
    deadline = time.monotonic() + TIMEOUT_S
    while not context.join(timeout=1):
        if time.monotonic() > deadline:
            for process in context.processes:
                process.kill()
            pytest.fail(f"{workers} workers did not end within {TIMEOUT_S:g} s")


def _work(rank: int, work: Callable[..., None], arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    os.environ |= environment  # the fork server has older variables
    work(rank, *arguments)
