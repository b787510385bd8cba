"""A signal that asks a process to end becomes one error, so that what was begun is cleaned up and said."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainmark.spec.errors import InterruptedRunError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stoppable(outcome: str) -> Iterator[None]:
    """Inside, the first such signal raises InterruptedRunError, which says the outcome; further ones are ignored."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise InterruptedRunError(f"Stopped by {signal.Signals(signum).name}{outcome}")

    # A signal that is ignored already stays so: under nohup a process outlives its terminal.
    heeded = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, on_signal) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
