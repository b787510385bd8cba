"""Checkpoints of a member: written by all ranks together, one file per rank with its checksum; resumed from the newest.

The state is opaque, it is the engine's; the position in the training follows from the checkpoint's step.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from trainmark.machine.storage import read_when_visible, refresh_nfs_cache
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.events import Checkpoint, CheckpointDamaged, Resumed
from trainmark.spec.files import write_atomically, write_json
from trainmark.spec.length import total_steps
from trainmark.spec.run_folder import AttemptFolder, CheckpointFolder, RunFolder
from trainmark.train.end_request import EndedEarlyError, EndRequest
from trainmark.train.engine import Engine, IncompatibleStateError, RankContext, UnreadableStateError
from trainmark.train.shared_store import Store, all_gather, broadcast

CHECKSUM = "blake2b"
CHECKSUM_BYTES = 16
FOUND = "trainmark/checkpoints"


class Position(NamedTuple):
    """The next step: its number, its epoch, its number within the epoch, and the time trained before it."""

    step: int = 0
    epoch: int = 0
    step_of_epoch: int = 0
    trained_s: float = 0.0


class Saved(NamedTuple):
    """A checkpoint that was completed, and its files' checksums by rank; None if an earlier version wrote it."""

    folder: CheckpointFolder
    checksums: tuple[str, ...] | None
    trained_s: float = 0.0  # before it


class DamagedError(Exception):
    """A rank's part of a checkpoint is missing, unreadable, or fails its checksum."""


class Checkpoints:
    """Writes a member's checkpoints; the newest `launch.keep_checkpoints` are kept."""

    def __init__(self, context: RankContext, store: Store | None, request: EndRequest) -> None:
        self._context = context
        self._store = store
        self._request = request
        self._every_steps = context.config.launch.checkpoint_steps
        self._every_epochs = context.config.launch.checkpoint_epochs

    def are_due_after_step(self, step: int) -> bool:
        """Whether a checkpoint is due within an epoch, before this step."""
        every = self._every_steps
        return (every > 0 and step % every == 0) or self._request.is_due(step)

    def are_due_after_epoch(self, position: Position) -> bool:
        """Whether a checkpoint is due between the epoch that ended at `position` and the next."""
        every = self._every_epochs
        return (every > 0 and position.epoch % every == 0) or self.are_due_after_step(position.step)

    def save(self, engine: Engine, position: Position) -> None:
        """Writes all that training needs to resume at `position`; collective over the ranks.

        Raises EndedEarlyError if the member was asked to end.
        """
        context, rank = self._context, self._context.rank.rank
        folder = context.attempt.checkpoint(position.step)
        folder.path.mkdir(parents=True, exist_ok=True)
        checksum = write_state(folder.rank(rank), engine.save)
        engine.barrier()  # fails at once if a rank died while it wrote; the store would wait for its timeout
        checksums = all_gather(self._store, rank, context.workers, f"trainmark/checkpoint/{position.step}", checksum)
        if rank == 0:
            # From here on, resume uses this checkpoint.
            record = {"member": context.member, "step": position.step, "trained_s": position.trained_s}
            write_json(folder.complete, {**record, CHECKSUM: checksums})
            context.log.write(Checkpoint(epoch=position.epoch, step=position.step))
            remove_old_checkpoints(context.attempt, context.config.launch.keep_checkpoints)
        engine.barrier()
        if self._request.is_due(position.step):
            raise EndedEarlyError(
                f"asked to end by SIGUSR2, as schedulers do before a time limit; the checkpoint of step "
                f"{position.step} is written. Continue with: trainmark resume"
            )


def remove_old_checkpoints(attempt: AttemptFolder, kept: int) -> None:
    """Removes all but the newest `kept` complete checkpoints of the attempt."""
    whole = [each for each in attempt.checkpoints() if each.complete.exists()]
    for older in attempt.checkpoints():
        if older not in whole[-kept:]:
            older.complete.unlink(missing_ok=True)  # first: if killed here, the rest must not pass for complete
            shutil.rmtree(older.path, ignore_errors=True)


class _Hashed:
    """A file that hashes what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.checksum = hashlib.blake2b(digest_size=CHECKSUM_BYTES)

    def write(self, data: bytes) -> int:
        self.checksum.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def write_state(path: Path, save: Callable[[IO[bytes]], None]) -> str:
    """Writes the state to a file and returns its checksum.

    Hashed while it is serialised: a second copy in memory would raise the measured peak.
    """
    checksum = ""

    def write(file: IO[bytes]) -> None:
        nonlocal checksum
        hashed = _Hashed(file)
        save(cast(IO[bytes], hashed))  # implements what serialisers need
        checksum = hashed.checksum.hexdigest()

    write_atomically(path, write)
    return checksum


def read_checksum(path: Path) -> str:
    """Returns the checksum of a file as it is on disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=CHECKSUM_BYTES)).hexdigest()


def find_checkpoints(folder: RunFolder, member: int, attempt: int) -> list[Saved]:
    """The complete checkpoints of earlier attempts at the member, newest first."""
    found = []
    for earlier in range(attempt - 1, 0, -1):
        refresh_nfs_cache(folder.attempt(member, earlier).path)
        complete = [each for each in folder.attempt(member, earlier).checkpoints() if each.complete.exists()]
        found += [_read_mark(each, member) for each in reversed(complete)]
    return found


def _read_mark(checkpoint: CheckpointFolder, member: int) -> Saved:
    """Reads the mark of completion; fields may be missing in one of an earlier version."""
    try:
        text = checkpoint.complete.read_text()
        if not text and checkpoint.rank(0).suffix == ".pt":
            return Saved(checkpoint, None)
        record = json.loads(text)
        is_own = (record.get("member", member), record.get("step", checkpoint.step)) == (member, checkpoint.step)
        checksums = tuple(map(str, record[CHECKSUM])) if is_own else ()
        return Saved(checkpoint, checksums, float(record.get("trained_s", 0.0)))
    except (OSError, ValueError, LookupError, TypeError):
        return Saved(checkpoint, ())  # damaged: with no checksum to match, every file counts as damaged


def agree_on_checkpoints(find: Callable[[], list[Saved]], rank: int, store: Store | None) -> list[Saved]:
    """Broadcasts what rank 0 finds: on shared storage, nodes may see different states."""
    found = broadcast(
        store,
        rank,
        FOUND,
        lambda: json.dumps([[str(each.folder.path), each.checksums, each.trained_s] for each in find()]),
    )
    return [
        Saved(CheckpointFolder(Path(path)), None if checksums is None else tuple(checksums), trained_s)
        for path, checksums, trained_s in json.loads(found)
    ]


def resume_from_newest(
    checkpoints: list[Saved], context: RankContext, engine: Engine, store: Store | None, steps_per_epoch: int
) -> Position:
    """Loads the newest checkpoint that is intact on all ranks, and returns its position; the start if there is none.

    Collective over the ranks.
    """
    rank = context.rank.rank
    for number, saved in enumerate(checkpoints):
        name = context.record.folder.name_of(saved.folder.path)
        state, damage = _try_to_read(saved, rank, engine, total_steps(context.config.train, steps_per_epoch))
        engine.barrier()  # as in `save`
        is_damaged = "" if damage is None else "damaged"
        flags = all_gather(store, rank, context.workers, f"{FOUND}/{number}", is_damaged)
        if not any(flags):
            position = _load(state, engine, saved, steps_per_epoch)
            context.log.write(
                Resumed(checkpoint=name, epoch=position.epoch, step=position.step, trained_s=position.trained_s)
            )
            return position
        del state  # frees memory before the next one is read
        ranks = [rank for rank, flag in enumerate(flags) if flag]
        context.log.write(CheckpointDamaged(checkpoint=name, ranks=ranks, reason=damage))
        if rank == 0:
            sys.stderr.write(f"trainmark: {name} is damaged (rank {', '.join(map(str, ranks))}) and is not used\n")
    return Position()


def _try_to_read(saved: Saved, rank: int, engine: Engine, total: int | None) -> tuple[Any, str | None]:
    """Returns this rank's part of a checkpoint, or why it is damaged; `total`: steps of the training, if known."""
    try:
        if total is not None and saved.folder.step >= total:
            raise DamagedError(f"{saved.folder.path} is named after a step beyond the end of training")
        return _read_state(saved, rank, engine), None
    except DamagedError as error:
        return None, str(error)


def _read_state(saved: Saved, rank: int, engine: Engine) -> Any:
    """Reads this rank's part of a checkpoint; raises DamagedError.

    All of it goes to the device: weights twice, plus optimizer state. Training holds gradients, as large as the
    weights, in place of the second copy, so peak memory stays that of training.
    """
    path = saved.folder.rank(rank)
    try:
        read_when_visible(lambda: saved.folder.rank(rank).stat(), saved.folder.path)
        path = saved.folder.rank(rank)  # of an earlier version, once it is visible
        if saved.checksums is not None and read_checksum(path) not in saved.checksums[rank:][:1]:
            raise DamagedError(f"{path} does not match its checksum")
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return engine.read(path)
    except UnreadableStateError as error:
        if saved.checksums is not None:  # intact, so it was not written by this engine
            raise _incompatible(saved.folder, error) from error
        raise DamagedError(f"{path} cannot be loaded: {error}") from error


def _load(state: Any, engine: Engine, saved: Saved, steps_per_epoch: int) -> Position:
    try:
        engine.load(state)
    except IncompatibleStateError as error:
        raise _incompatible(saved.folder, error) from error
    return Position(saved.folder.step, *divmod(saved.folder.step, steps_per_epoch), saved.trained_s)


def _incompatible(folder: CheckpointFolder, error: Exception) -> TrainmarkError:
    return TrainmarkError(
        f"The checkpoint {folder.path} is intact, but does not fit this model and optimizer ({error}). "
        "Was it written by another version of trainmark? Resume with that one, or start a new run."
    )
