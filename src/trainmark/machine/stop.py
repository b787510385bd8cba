"""Stopping on signals, at safe points.

An exception raised by a signal handler can strike anywhere: Python drops it in finalizers and hooks of a fork, and
leaves locks of its own library held. So the first signal is only noted, and raised at the next safe point.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainmark.spec.errors import InterruptedRunError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_EVERY_S = 0.1
_noted: list[InterruptedRunError] = []


@contextmanager
def stoppable(outcome: str) -> Iterator[None]:
    """Turns a signal into an InterruptedRunError with the given outcome, at the next `raise_if_stopped` or at the end.

    A second signal does not wait for that. Once the error is raised, further ones are ignored.
    """

    def on_signal(signum: int, frame: FrameType | None) -> None:
        raise_if_stopped()
        _noted.append(InterruptedRunError(f"Stopped by {signal.Signals(signum).name}{outcome}"))

    # Ignored signals stay ignored: under nohup a process outlives its terminal.
    handled = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, on_signal) for each in handled}
    try:
        yield
        raise_if_stopped()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        _noted.clear()


@contextmanager
def unstoppable() -> Iterator[None]:
    """Ignores signals, while a process that is stopped already writes what it has."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def raise_if_stopped() -> None:
    """Raises the InterruptedRunError of a signal that was noted; called at safe points."""
    if _noted:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise _noted[0]


def pause(seconds: float) -> None:
    """Sleeps; raises InterruptedRunError soon after a signal."""
    end = time.monotonic() + seconds
    raise_if_stopped()
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, LOOK_EVERY_S))
        raise_if_stopped()
