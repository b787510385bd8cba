"""What warm-up costs a member beyond settled steps, and how long to train until that no longer matters."""

import math
from typing import NamedTuple

from trainmark.collect.measured import Member

NEGLIGIBLE = 0.05  # of the training time


class WarmUpCost(NamedTuple):
    """The time of one member's training that settled steps would not have taken."""

    training_s: float
    warmup_s: float  # what the first steps took longer than settled ones
    epoch_s: float  # of a settled epoch
    between_steps_s: float  # of an epoch, in no step: every epoch pays for it

    @property
    def epochs_until_negligible(self) -> int | None:
        """Epochs after which settled steps make up 95 % of the training time; None: no number is enough."""
        # (w + N·b) / (w + N·(e + b)) ≤ 5 %
        gain_s = NEGLIGIBLE * self.epoch_s - (1 - NEGLIGIBLE) * self.between_steps_s
        return math.ceil((1 - NEGLIGIBLE) * self.warmup_s / gain_s) if gain_s > 0 else None


def cost_of_warm_up(member: Member) -> WarmUpCost:
    """From the durations of the member's steps and epochs."""
    training_s = sum(epoch.epoch_s for epoch in member.epochs)
    warm_up, settled = member.step_s[: member.steady.warmup_steps], member.step_s[member.steady.warmup_steps :]
    settled_s = float(settled.mean())
    num_epochs = len(member.epochs)
    return WarmUpCost(
        training_s=training_s,
        warmup_s=max(0.0, float(warm_up.sum()) - len(warm_up) * settled_s),
        epoch_s=settled_s * len(member.step_s) / num_epochs,
        between_steps_s=max(0.0, training_s - float(member.step_s.sum())) / num_epochs,
    )
