"""A worker that trains nothing: bound like a real one, it records its device and waits at the start barrier on request.

Called in place of Python: other modules are run as usual.
"""

import json
import os
import runpy
import sys
from pathlib import Path

WORKER = "trainmark.train.worker"


def main() -> None:
    """Writes `device.json` in the attempt's folder, then the records of a finished member."""
    from benchmarks import trivial_worker

    from trainmark.spec.job_record import read_job_record
    from trainmark.train.member import wait_for_start
    from trainmark.train.placement import bind_rank, find_rank

    words = sys.argv[1:]
    record = read_job_record(Path(words[words.index(WORKER) + 1]))
    rank = bind_rank(find_rank("slurm", record.job.ranks, os.environ), record, assigned_by="slurm")
    attempt = record.folder.attempt(record.job.member, int(words[words.index("--attempt") + 1]))
    device = {"host": os.uname().nodename, "device": os.environ.get("CUDA_VISIBLE_DEVICES")}
    (attempt.path / "device.json").write_text(json.dumps(device))
    if "--wait-for-start" in words:
        wait_for_start(attempt, rank.rank)
    trivial_worker.main()


if __name__ == "__main__":
    if WORKER in sys.argv:
        main()
    else:
        sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
