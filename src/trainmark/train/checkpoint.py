"""Writing checkpoints: a member's training state at a step, each rank's part whole and with its checksum."""

import hashlib
import shutil
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch

from trainmark.spec.config import LaunchConfig
from trainmark.spec.files import write_atomically, write_json
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.end_request import EndedEarlyError, EndRequest
from trainmark.train.event_log import EventLog
from trainmark.train.torch.process_group import barrier, gather_rows
from trainmark.train.torch.trainee import Trainee

CHECKSUM = "blake2b"
CHECKSUM_BYTES = 16


class Position(NamedTuple):
    """The next step: its number, its epoch, and its number within the epoch."""

    step: int = 0
    epoch: int = 0
    step_of_epoch: int = 0


class Checkpoints:
    """Writes a member's checkpoints; the newest `launch.keep_checkpoints` are kept."""

    def __init__(self, attempt: AttemptFolder, launch: LaunchConfig, log: EventLog, request: EndRequest) -> None:
        self._attempt = attempt
        self._launch = launch
        self._log = log
        self._request = request

    def are_due_after_step(self, step: int) -> bool:
        """Whether one is wanted within an epoch, before this step."""
        every = self._launch.checkpoint_steps
        return (every > 0 and step % every == 0) or self._request.is_due(step)

    def are_due_after_epoch(self, position: Position) -> bool:
        """Whether one is wanted between the epoch that ended before `position` and the next."""
        every = self._launch.checkpoint_epochs
        return (every > 0 and position.epoch % every == 0) or self.are_due_after_step(position.step)

    def save(self, trainee: Trainee, position: Position) -> None:
        """All that training needs to go on at `position` is on disk; every rank calls this together.

        If the member was asked to end, it ends here.
        """
        folder = self._attempt.checkpoint(position.step)
        folder.path.mkdir(parents=True, exist_ok=True)
        checksum = write_state(folder.rank(trainee.rank), _state_of(trainee, position))
        own = torch.tensor([list(checksum)], dtype=torch.uint8, device=trainee.device)
        checksums = gather_rows(own, [1] * trainee.workers)  # once it is here, all ranks have written their files
        if trainee.rank == 0:
            # From here on this is the one to resume from.
            write_json(folder.complete, {CHECKSUM: [bytes(row).hex() for row in checksums.tolist()]})
            self._log.write("checkpoint", epoch=position.epoch, step=position.step)
            remove_old_checkpoints(self._attempt, self._launch.keep_checkpoints)
        barrier()
        if self._request.is_due(position.step):
            raise EndedEarlyError(
                f"asked to end by SIGUSR2, as schedulers do before a time limit; the checkpoint of step "
                f"{position.step} is written. Go on with: trainmark resume"
            )


def remove_old_checkpoints(attempt: AttemptFolder, kept: int) -> None:
    """Only the newest whole ones of the attempt are left, `kept` of them."""
    whole = [each for each in attempt.checkpoints() if each.complete.exists()]
    for older in attempt.checkpoints():
        if older not in whole[-kept:]:
            older.complete.unlink(missing_ok=True)  # first: what is left of it by a kill must not be taken for whole
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


def write_state(path: Path, state: dict[str, Any]) -> bytes:
    """The checksum of the file that now holds the state.

    Written as it is serialised: a second copy in memory would stand in the measured peak.
    """
    checksum = b""

    def write(file: IO[bytes]) -> None:
        nonlocal checksum
        hashed = _Hashed(file)
        torch.save(state, hashed)  # type: ignore[arg-type]
        checksum = hashed.checksum.digest()

    write_atomically(path, write)
    return checksum


def read_checksum(path: Path) -> str:
    """The checksum of a file as it is now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=CHECKSUM_BYTES)).hexdigest()


def _state_of(trainee: Trainee, position: Position) -> dict[str, Any]:
    state: dict[str, Any] = {
        "position": tuple(position),
        "trained": trainee.parallelism.state(trainee.optimizer),
        "random_state": torch.get_rng_state(),
    }
    if trainee.device.type == "cuda":
        state["cuda_random_state"] = torch.cuda.get_rng_state()
    return state
