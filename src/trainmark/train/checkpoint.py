"""Checkpoints: a member's training state after an epoch, written whole or not at all, safe to load."""

import io
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import nn

from trainmark.spec.errors import TrainmarkError
from trainmark.spec.files import write_atomically
from trainmark.spec.run_folder import RunFolder


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, next_epoch: int, next_step: int
) -> None:
    """`path` holds all that training needs to go on with `next_epoch`."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "next_epoch": next_epoch,
        "next_step": next_step,
        "random_state": torch.get_rng_state(),
    }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))


def find_checkpoint(folder: RunFolder, member: int, attempt: int) -> Path | None:
    """The newest checkpoint that an earlier attempt at the member left."""
    for earlier in range(attempt - 1, 0, -1):
        path = folder.attempt(member, earlier).checkpoint
        if path.exists():
            return path
    return None


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> tuple[int, int]:
    """Model and optimizer are as they were; the epoch and the step to go on with come back."""
    # weights_only: a checkpoint is data and can never run code.
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random_state"].cpu())
        return int(state["next_epoch"]), int(state["next_step"])
    except (RuntimeError, ValueError, LookupError, EOFError, UnpicklingError) as error:
        raise TrainmarkError(
            f"The checkpoint {path} is damaged ({type(error).__name__}). Remove it; the next attempt does without."
        ) from error
