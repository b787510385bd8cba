"""Running all jobs of a plan with any launcher: submit what fits, watch, and stop everything when interrupted."""

import time
from collections.abc import Callable

from trainmark.launch.launcher import Launcher
from trainmark.spec.job_record import JobRecord


def run_jobs(launcher: Launcher, records: list[JobRecord], on_poll: Callable[[], None]) -> None:
    """Every job has run to its end, good or bad. Whatever `on_poll`, called between looks, raises stops them all."""
    waiting = list(records)
    try:
        while waiting or launcher.num_running():
            if launcher.broken:
                waiting = []
            waiting = [record for record in waiting if not _start(launcher, record)]
            launcher.poll()
            on_poll()
            time.sleep(launcher.poll_s)
    finally:
        launcher.cancel()


def _start(launcher: Launcher, record: JobRecord) -> bool:
    if not launcher.can_start(record):
        return False
    member = record.job.member
    launcher.submit(record, record.folder.num_attempts(member) + 1)
    return True
