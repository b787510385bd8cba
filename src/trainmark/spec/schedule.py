"""Progress: all that a learning-rate schedule may look at."""

from typing import NamedTuple


class Progress(NamedTuple):
    """Where training stands and how long it is."""

    step: int
    steps_per_epoch: int
    total_steps: int
    global_batch_size: int
