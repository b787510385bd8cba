"""The common start: a rank says that it is ready and waits until the launcher names the moment."""

import math
import time

from trainmark.machine.storage import read_when_visible
from trainmark.spec.files import write_text
from trainmark.spec.run_folder import AttemptFolder

POLL_S = 0.01


def wait_for_go(attempt: AttemptFolder, rank: int) -> None:
    """Returns at the start time that the launcher wrote for all members; where clocks disagree, after its delay."""
    write_text(attempt.ready(rank), "")
    start_at, delay_s = read_when_visible(lambda: _read_go(attempt), attempt.path, math.inf, POLL_S)
    time.sleep(min(delay_s, max(0.0, start_at - time.time())))


def _read_go(attempt: AttemptFolder) -> tuple[float, float]:
    start_at, delay_s = map(float, attempt.go.read_text().split())
    return start_at, delay_s
