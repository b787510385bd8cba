"""Staging inside a member's job: the first rank of each node copies the samples, the others wait for it."""

import math
import time
from contextlib import suppress
from functools import partial
from typing import Any

from trainmark.data.split import StoredSplit
from trainmark.data.staging.duplicator import Staged, StagedSplit, find_pack, stage
from trainmark.data.staging.pack import Selection
from trainmark.machine.storage import read_when_visible, user_staging_folder
from trainmark.spec.errors import StorageError
from trainmark.spec.files import read_json, write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import StagingStart, StagingStop
from trainmark.spec.plan import Rank
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.event_log import EventLog

POLL_S = 0.1
GRACE_S = 5.0  # in which the launcher ends this rank after another one has failed


def stage_on_node(
    split: StoredSplit, wanted: Selection, record: JobRecord, rank: Rank, attempt: AttemptFolder, log: EventLog
) -> StagedSplit:
    """Returns the split on node-local storage, once every node of the member has staged the wanted samples."""
    where = record.group.local_storage
    assert where is not None, "checked by the plan"
    if rank.rank_of_node == 0:
        try:
            pack = _stage(split, wanted, where, log).pack
        except BaseException as error:
            with suppress(OSError):  # the first error matters more
                write_json(attempt.staged(rank.rank), {"error": str(error)})
            raise
        write_json(attempt.staged(rank.rank), {"error": None})
        _wait_for_all_nodes(record, attempt)
    else:
        _wait_for_all_nodes(record, attempt)
        pack = find_pack(wanted, user_staging_folder(where))
    return StagedSplit(split, pack)


def _stage(split: StoredSplit, wanted: Selection, where: str, log: EventLog) -> Staged:
    storage = user_staging_folder(where)
    log.write(StagingStart(samples=wanted.num_needed, of_samples=len(wanted.needed), folder=str(storage)))
    began_s = time.perf_counter()
    staged = stage(split, wanted, storage)
    pack = staged.pack.record
    log.write(
        StagingStop(
            samples=pack.num_samples,
            of_samples=pack.of_samples,
            bytes=pack.size_bytes,
            staging_s=time.perf_counter() - began_s,
            reused=staged.reused,
            replaced=staged.replaced,
            folder=str(staged.pack.folder.path),
        )
    )
    return staged


def _wait_for_all_nodes(record: JobRecord, attempt: AttemptFolder) -> None:
    """Returns when the first rank of every node has staged; raises StorageError if one could not.

    Through files and without a time-out: copying may take longer than the process group's, and when a rank dies the
    launcher ends the others.
    """
    for first in (rank.rank for rank in record.job.ranks if rank.rank_of_node == 0):
        mark = attempt.staged(first)
        outcome: dict[str, Any] = read_when_visible(partial(read_json, mark), attempt.path, math.inf, POLL_S)
        if outcome["error"] is not None:
            time.sleep(GRACE_S)
            raise StorageError(f"Rank {first} could not stage the samples on its node: {outcome['error']}")
