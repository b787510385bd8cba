"""Ctrl-C, SIGTERM and a closed terminal become one error that unwinds the run cleanly."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trainmark.spec.errors import InterruptedRunError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(run_id: str) -> Iterator[None]:
    """Inside, the first such signal raises InterruptedRunError; further ones are ignored while the jobs are stopped."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        name = signal.Signals(signum).name
        raise InterruptedRunError(
            f"Stopped by {name}. Finished members are kept; go on with: trainmark resume {run_id}"
        )

    before = {each: signal.signal(each, on_signal) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
