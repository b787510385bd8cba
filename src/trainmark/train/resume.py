"""Going on from a checkpoint: the newest one that is whole on every rank, chosen by all ranks together."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch

from trainmark.machine.storage import read_when_visible, refresh_nfs_cache
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.events import CheckpointDamaged, Resumed
from trainmark.spec.run_folder import CheckpointFolder, RunFolder
from trainmark.train.checkpoint import CHECKSUM, Position, read_checksum
from trainmark.train.end_request import Store
from trainmark.train.event_log import EventLog
from trainmark.train.out_of_memory import explain_out_of_memory
from trainmark.train.torch.process_group import gather_rows
from trainmark.train.torch.trainee import Trainee

CHECKPOINTS = "trainmark/checkpoints"


class DamagedError(Exception):
    """A rank's part of a checkpoint that is not what was written."""


class Saved(NamedTuple):
    """A checkpoint that was complete once, and its files' checksums by rank; None if an earlier version wrote it."""

    folder: CheckpointFolder
    checksums: tuple[str, ...] | None


def find_checkpoints(folder: RunFolder, member: int, attempt: int) -> list[Saved]:
    """What earlier attempts at the member left, newest first."""
    found = []
    for earlier in range(attempt - 1, 0, -1):
        refresh_nfs_cache(folder.attempt(member, earlier).path)
        complete = [each for each in folder.attempt(member, earlier).checkpoints() if each.complete.exists()]
        found += [Saved(each, _checksums_of(each)) for each in reversed(complete)]
    return found


def _checksums_of(checkpoint: CheckpointFolder) -> tuple[str, ...] | None:
    try:
        text = checkpoint.complete.read_text()
        return tuple(map(str, json.loads(text)[CHECKSUM])) if text else None
    except (OSError, ValueError, LookupError, TypeError):
        return ()  # damaged, and with it the checkpoint: no file has the checksum that is not there


def agree_on_checkpoints(find: Callable[[], list[Saved]], rank: int, store: Store | None) -> list[Saved]:
    """What rank 0 finds, on all ranks: shared storage may show one node an older state than another."""
    if store is None:
        return find()
    if rank == 0:
        store.set(CHECKPOINTS, json.dumps([[str(saved.folder.path), saved.checksums] for saved in find()]))
    return [
        Saved(CheckpointFolder(Path(path)), None if checksums is None else tuple(checksums))
        for path, checksums in json.loads(store.get(CHECKPOINTS))
    ]


def resume_from_newest(checkpoints: list[Saved], trainee: Trainee, run: RunFolder, log: EventLog) -> Position:
    """The position to go on from, with the trainee as it was there: the newest checkpoint that no rank finds damaged.

    Every rank calls this together. Where none is left, training starts from the beginning.
    """
    for saved in checkpoints:
        name = run.name_of(saved.folder.path)
        state, damage = _try_to_read(saved, trainee)
        own = torch.tensor([[damage is not None]], dtype=torch.uint8, device=trainee.device)
        flags = gather_rows(own, [1] * trainee.workers).flatten().tolist()
        if state is not None and not any(flags):
            position = _load(state, trainee, saved.folder)
            log.write(Resumed(checkpoint=name, epoch=position.epoch, step=position.step))
            return position
        del state  # before the next one is read
        ranks = [rank for rank, is_damaged in enumerate(flags) if is_damaged]
        log.write(CheckpointDamaged(checkpoint=name, ranks=ranks, reason=damage))
        if trainee.rank == 0:
            sys.stderr.write(f"trainmark: {name} is damaged (rank {', '.join(map(str, ranks))}) and is not used\n")
    return Position()


def _try_to_read(saved: Saved, trainee: Trainee) -> tuple[dict[str, Any] | None, str | None]:
    """This rank's part of a checkpoint, or why it is damaged."""
    try:
        return _read_state(saved, trainee), None
    except DamagedError as error:
        return None, str(error)


def _read_state(saved: Saved, trainee: Trainee) -> dict[str, Any]:
    """This rank's part of a checkpoint.

    It goes to the device whole: weights twice, and what the optimizer keeps. Training holds gradients as large as the
    weights instead of the second copy, so the peak of memory stays that of training.
    """
    path = saved.folder.rank(trainee.rank)
    try:
        read_when_visible(path.stat, saved.folder.path)
        if saved.checksums is not None and read_checksum(path) not in saved.checksums[trainee.rank :][:1]:
            raise DamagedError(f"{path} does not have the checksum that it was written with")
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from error
    try:
        # weights_only: a checkpoint is data and can never run code.
        state: dict[str, Any] = torch.load(path, map_location=trainee.device, weights_only=True)
    except (OSError, RuntimeError, ValueError, LookupError, EOFError, UnpicklingError) as error:
        is_known_whole = saved.checksums is not None
        if is_known_whole or isinstance(error, torch.OutOfMemoryError) or explain_out_of_memory(error):
            raise
        raise DamagedError(f"{path} cannot be loaded: {type(error).__name__}") from error
    return state


def _load(state: dict[str, Any], trainee: Trainee, folder: CheckpointFolder) -> Position:
    try:
        trainee.parallelism.load(state["trained"], trainee.optimizer)
        torch.set_rng_state(state["random_state"].cpu())
        if trainee.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_random_state"].cpu())
        return Position(*state["position"])
    except (RuntimeError, ValueError, LookupError) as error:
        if isinstance(error, torch.OutOfMemoryError) or explain_out_of_memory(error):
            raise
        raise TrainmarkError(
            f"The checkpoint {folder.path} is whole, but does not fit this model and optimizer "
            f"({type(error).__name__}). Was it written by another version of trainmark? "
            "Resume with that one, or start a new run."
        ) from error
