"""Processes that act together, each copied from one that has loaded torch: loading takes longer than most checks."""

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch.multiprocessing as mp

from tests.waiting import PATIENCE_S

LOADED = ["torch._dynamo", "torch.distributed.tensor", "trainmark.train.torch.communication.allreduce"]


def run_workers(work: Callable[..., None], arguments: tuple[Any, ...], workers: int) -> None:
    """`work(rank, *arguments)` has been done by each of them; the test fails if one fails, or if they hang."""
    multiprocessing.set_forkserver_preload(LOADED)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    context = mp.start_processes(
        _work, args=(work, arguments, environment), nprocs=workers, join=False, start_method="forkserver"
    )
    deadline = time.monotonic() + PATIENCE_S
    while not context.join(timeout=1):
        if time.monotonic() > deadline:
            for process in context.processes:
                process.kill()
            pytest.fail(f"{workers} workers did not end within {PATIENCE_S:g} s")


def _work(rank: int, work: Callable[..., None], arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    os.environ |= environment  # the process that is copied has the variables of an earlier moment
    work(rank, *arguments)
