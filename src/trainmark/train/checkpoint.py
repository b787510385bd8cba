"""Checkpoints: a member's training state at a step, each rank's part whole or not there, safe to load."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch

from trainmark.machine.late_files import look_afresh, read_late
from trainmark.spec.config import LaunchConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.files import write_atomically, write_text
from trainmark.spec.run_folder import AttemptFolder, CheckpointFolder, RunFolder
from trainmark.train.end_request import EndedEarlyError, EndRequest, Store
from trainmark.train.event_log import EventLog
from trainmark.train.process_group import barrier
from trainmark.train.trainee import Trainee

CHECKPOINT = "trainmark/checkpoint"


class Position(NamedTuple):
    """The next step: its number, its epoch, and its number within the epoch."""

    step: int = 0
    epoch: int = 0
    step_of_epoch: int = 0


class Checkpoints:
    """Writes a member's checkpoints; only the newest whole one is kept."""

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
        _write(folder.rank(trainee.rank), _state_of(trainee, position))
        barrier()
        if trainee.rank == 0:
            write_text(folder.complete, "")  # from here on this is the one to resume from
            self._log.write("checkpoint", epoch=position.epoch, step=position.step)
            for older in self._attempt.checkpoints():
                if older.path != folder.path:
                    shutil.rmtree(older.path, ignore_errors=True)
        barrier()
        if self._request.is_due(position.step):
            raise EndedEarlyError(
                f"asked to end by SIGUSR2, as schedulers do before a time limit; the checkpoint of step "
                f"{position.step} is written. Go on with: trainmark resume"
            )


def find_checkpoint(folder: RunFolder, member: int, attempt: int) -> CheckpointFolder | None:
    """The newest whole checkpoint that an earlier attempt at the member left."""
    for earlier in range(attempt - 1, 0, -1):
        look_afresh(folder.attempt(member, earlier).path)
        for found in reversed(folder.attempt(member, earlier).checkpoints()):
            if found.complete.exists():
                return found
    return None


def agree_on_checkpoint(
    find: Callable[[], CheckpointFolder | None], rank: int, store: Store | None
) -> CheckpointFolder | None:
    """What rank 0 finds, on all ranks: shared storage may show one node an older state than another."""
    if store is None:
        return find()
    if rank == 0:
        found = find()
        store.set(CHECKPOINT, str(found.path) if found else "")
    path = store.get(CHECKPOINT).decode()
    return CheckpointFolder(Path(path)) if path else None


def load_checkpoint(folder: CheckpointFolder, trainee: Trainee) -> Position:
    """The trainee is as it was; the position to go on from comes back."""
    path = folder.rank(trainee.rank)
    try:
        read_late(path.stat, folder.path)
        # weights_only: a checkpoint is data and can never run code.
        state = torch.load(path, map_location=trainee.device, weights_only=True)
        trainee.parallelism.load(state["trained"], trainee.optimizer)
        torch.set_rng_state(state["random_state"].cpu())
        if trainee.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_random_state"].cpu())
        return Position(*state["position"])
    except (OSError, RuntimeError, ValueError, LookupError, EOFError, UnpicklingError) as error:
        raise TrainmarkError(
            f"The checkpoint {path} is damaged ({type(error).__name__}). Remove {folder.path}; the next attempt does "
            "without."
        ) from error


def _state_of(trainee: Trainee, position: Position) -> dict[str, Any]:
    state: dict[str, Any] = {
        "position": tuple(position),
        "trained": trainee.parallelism.state(trainee.optimizer),
        "random_state": torch.get_rng_state(),
    }
    if trainee.device.type == "cuda":
        state["cuda_random_state"] = torch.cuda.get_rng_state()
    return state


def _write(path: Path, state: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))
