"""Progress: all that a learning-rate schedule may look at."""

from typing import NamedTuple


class Progress(NamedTuple):
    """Where training stands and how long it is, in steps; warm-up may end within a step."""

    step: int
    steps_per_epoch: int
    total_steps: int
    warmup_steps: float = 0.0

    @property
    def epochs(self) -> float:
        """Epochs that lie behind this step, warm-up among them."""
        return self.step / self.steps_per_epoch

    @property
    def epochs_after_warmup(self) -> float:
        """Epochs between the end of warm-up and this step."""
        return (self.step - self.warmup_steps) / self.steps_per_epoch

    @property
    def share_left(self) -> float:
        """How much of the training after warm-up is still to come, this step included: from 1 down, never 0."""
        return (self.total_steps - self.step) / max(1.0, self.total_steps - self.warmup_steps)
