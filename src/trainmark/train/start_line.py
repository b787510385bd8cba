"""The common start: a rank says that it is ready and waits until the launcher names the moment."""

import time

from trainmark.spec.files import write_text
from trainmark.spec.run_folder import AttemptFolder

POLL_S = 0.01


def wait_for_go(attempt: AttemptFolder, rank: int) -> None:
    """Returns at the start time that the launcher wrote for all members."""
    write_text(attempt.ready(rank), "")
    while not attempt.go.exists():
        time.sleep(POLL_S)
    start_at = float(attempt.go.read_text())
    time.sleep(max(0.0, start_at - time.time()))
