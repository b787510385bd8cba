"""Running all jobs of a plan with any launcher: submit what fits, watch, try again what failed and may be."""

import time
from collections import Counter
from collections.abc import Callable

from trainmark.launch.ends import may_be_tried_again
from trainmark.launch.launcher import Launcher
from trainmark.spec.job_record import JobRecord, write_jobs


def run_jobs(launcher: Launcher, records: list[JobRecord], on_poll: Callable[[], None]) -> None:
    """Every job has run to its end, good or bad. Whatever `on_poll`, called between looks, raises ends the watch.

    Then jobs that end with this process are stopped; those that outlive it go on.
    """
    under_way = {record.job.member for record in launcher.adopt(records)}
    waiting = [record for record in records if record.job.member not in under_way and not record.is_finished()]
    # Not of those under way, whose nodes read these files. A folder that was moved has other paths now.
    write_jobs(waiting, launcher.script)
    tries = Counter(under_way)
    try:
        while waiting or launcher.num_running():
            if launcher.broken:
                waiting = []
            if submitted := {record.job.member for record in launcher.submit(waiting)} if waiting else None:
                tries.update(submitted)
                waiting = [record for record in waiting if record.job.member not in submitted]
            waiting += [record for record in launcher.poll() if _is_due_again(record, tries)]
            on_poll()
            time.sleep(launcher.poll_s)
    finally:
        if not launcher.outlives_us:
            launcher.cancel()


def _is_due_again(record: JobRecord, tries: Counter[int]) -> bool:
    return tries[record.job.member] < record.config.launch.attempts and may_be_tried_again(record)
