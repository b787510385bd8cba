"""The common start: a rank says that it is ready and waits until the launcher names the moment."""

import math
import time

from trainmark.machine.late_files import read_late
from trainmark.spec.files import write_text
from trainmark.spec.run_folder import AttemptFolder

POLL_S = 0.01


def wait_for_go(attempt: AttemptFolder, rank: int) -> None:
    """Returns at the start time that the launcher wrote for all members."""
    write_text(attempt.ready(rank), "")
    start_at = read_late(lambda: float(attempt.go.read_text()), attempt.path, math.inf, POLL_S)
    time.sleep(max(0.0, start_at - time.time()))
