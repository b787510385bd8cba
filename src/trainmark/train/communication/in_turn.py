"""InTurn: runs exchanges one after another beside the backward pass, in the same order on all workers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch.futures import Future


class InTurn:
    """One thread for exchanges, so that the messages of two never mix; on a GPU, one stream does the same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="communication")
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def run(self, exchange: Callable[[], Tensor]) -> Future[Tensor]:
        """What `exchange` will give, after those before it."""
        if self._stream is not None:
            done: Future[Tensor] = Future(devices=[self._device])
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                done.set_result(exchange())  # who waits for it makes his own stream wait
            return done
        future: Future[Tensor] = Future()
        self._thread.submit(_fulfil, future, exchange)
        return future


def _fulfil(future: Future[Tensor], exchange: Callable[[], Tensor]) -> None:
    try:
        future.set_result(exchange())
    except Exception as error:  # noqa: BLE001 - whatever it is, backward must end with it, not wait for ever
        future.set_exception(error)  # type: ignore[arg-type]
