"""Traffic: the bytes that a rank sends while it trains, as the kernel counts them."""

import torch.distributed as dist

from trainmark.machine.sockets import tcp_bytes_sent


class Traffic:
    """Counts between `start` and `stop`; what is sent in between stretches of training does not count."""

    def __init__(self) -> None:
        # NCCL moves data over NVLink, shared memory or its own network code: no TCP socket sees them.
        self._is_seen = dist.is_initialized() and dist.get_backend() == "gloo"
        self._begin: int | None = None
        self._bytes: int | None = 0 if self._is_seen else None

    def start(self) -> None:
        """What is sent from now on counts."""
        self._begin = tcp_bytes_sent() if self._is_seen else None

    def stop(self) -> None:
        """What is sent from now on does not count."""
        end = tcp_bytes_sent() if self._is_seen else None
        known = self._bytes is not None and self._begin is not None and end is not None
        self._bytes = self._bytes + end - self._begin if known else None  # type: ignore[operator]

    def take(self) -> int | None:
        """The bytes since the last call; None where they cannot be seen."""
        sent, self._bytes = self._bytes, 0 if self._is_seen else None
        return sent
