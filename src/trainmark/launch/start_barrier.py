"""Start barrier: once all ranks of several members are ready, they get the same start time."""

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

from trainmark.machine.storage import refresh_nfs_cache
from trainmark.spec.files import write_text
from trainmark.spec.job_record import read_job_record
from trainmark.spec.run_folder import AttemptFolder, RunFolder

POLL_S = 0.5
SAME_STORAGE_DELAY_S = 0.05  # until every rank on this machine has polled
SHARED_STORAGE_DELAY_S = 2.0  # until a file written by one node is visible to the others


def release_ranks(attempts: Iterable[AttemptFolder], delay_s: float) -> None:
    """Starts all waiting ranks of these attempts `delay_s` from now."""
    start_at = time.time() + delay_s
    for attempt in attempts:
        write_text(attempt.go, f"{start_at!r} {delay_s!r}")


def is_ready(attempt: AttemptFolder, num_ranks: int) -> bool:
    """Whether all ranks of the attempt are waiting at the start barrier."""
    return all(attempt.ready(rank).exists() for rank in range(num_ranks))


def main(argv: list[str] | None = None) -> None:
    """Waits until the members of one allocation are ready or have ended, and starts them together."""
    parser = argparse.ArgumentParser(prog="python -m trainmark.launch.start_barrier", description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("tries", nargs="+", metavar="MEMBER:ATTEMPT", help="attempts that start together")
    arguments = parser.parse_args(argv)
    folder = RunFolder(arguments.run.resolve())
    waiting = {}
    for text in arguments.tries:
        member, attempt = (int(word) for word in text.split(":"))
        ranks = read_job_record(folder.job_record(member)).job.ranks
        waiting[folder.attempt(member, attempt)] = len(ranks)
    while late := [a for a, ranks in waiting.items() if not is_ready(a, ranks) and not a.status.exists()]:
        time.sleep(POLL_S)
        for unready in late:
            refresh_nfs_cache(unready.path)
    release_ranks(waiting, SHARED_STORAGE_DELAY_S)


if __name__ == "__main__":
    main()
