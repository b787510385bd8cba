"""The length of a member's training: epochs, a number of steps, or minutes."""

from trainmark.spec.config import TrainChoices

MIN_STEPS_OF_MINUTES = 3  # trained however short the time is, so that there are timings


def scheduled_steps(train: TrainChoices, steps_per_epoch: int) -> int:
    """Returns the number of steps that the learning rate's schedule is made for."""
    return train.steps or train.epochs * steps_per_epoch


def total_steps(train: TrainChoices, steps_per_epoch: int) -> int | None:
    """Returns the number of steps of the training; None if time ends it."""
    return None if train.minutes is not None else scheduled_steps(train, steps_per_epoch)


def total_epochs(train: TrainChoices, steps_per_epoch: int) -> int | None:
    """Returns the number of epochs, the last of which may be cut short; None if time ends the training."""
    total = total_steps(train, steps_per_epoch)
    return None if total is None else -(-total // steps_per_epoch)


def length_setting(train: TrainChoices) -> str:
    """Returns the setting that determines the length: `train.epochs`, `train.steps` or `train.minutes`."""
    if train.steps is not None:
        return "train.steps"
    return "train.epochs" if train.minutes is None else "train.minutes"
