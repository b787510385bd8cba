"""InTurn: runs exchanges one after another beside the backward pass, in the same order on all workers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch.futures import Future


class InTurn:
    """One thread for exchanges, so that the messages of two never mix; on an accelerator its stream does the same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="communication")

    def run(self, exchange: Callable[[], Tensor]) -> Future[Tensor]:
        """What `exchange` will give, after those before it."""
        if self._device.type == "cuda":
            done: Future[Tensor] = Future(devices=[self._device])
            done.set_result(exchange())
            return done
        future: Future[Tensor] = Future()
        self._thread.submit(_fulfil, future, exchange)
        return future


def _fulfil(future: Future[Tensor], exchange: Callable[[], Tensor]) -> None:
    try:
        future.set_result(exchange())
    except Exception as error:  # noqa: BLE001 - whatever it is, backward must end with it, not wait for ever
        future.set_exception(error)  # type: ignore[arg-type]
