"""Ctrl-C, SIGTERM and a closed terminal become one error that unwinds the run cleanly."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from trainmark.spec.errors import InterruptedRunError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(run_path: Path, jobs_go_on: bool) -> Iterator[None]:
    """Inside, the first such signal raises InterruptedRunError; further ones are ignored while the run is left."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        name = signal.Signals(signum).name
        if jobs_go_on:
            raise InterruptedRunError(
                f"{name}: no longer watching, but the jobs go on. See them with: trainmark status {run_path}; stop "
                f"them with: trainmark cancel {run_path}; watch and collect with: trainmark resume {run_path}"
            )
        raise InterruptedRunError(
            f"Stopped by {name}. Finished members are kept; go on with: trainmark resume {run_path}"
        )

    # A signal that is ignored already stays so: under nohup a run outlives its terminal.
    heeded = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, on_signal) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
