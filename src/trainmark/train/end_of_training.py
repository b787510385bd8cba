"""EndOfTraining: the step after which a member's training ends, the same on all of its ranks."""

from collections.abc import Callable

from trainmark.spec.length import MIN_STEPS_OF_MINUTES, total_steps
from trainmark.train.engine import RankContext
from trainmark.train.shared_store import Store, broadcast
from trainmark.train.step_agreement import StepAgreement


class EndOfTraining:
    """Ends training after the chosen epochs or steps, after the chosen minutes, or at the target quality."""

    def __init__(
        self,
        context: RankContext,
        store: Store | None,
        steps_per_epoch: int,
        wait_for_device: Callable[[], None] = lambda: None,
    ) -> None:
        train, evaluate = context.config.train, context.config.evaluate
        self._rank, self._store = context.rank.rank, store
        self._total = total_steps(train, steps_per_epoch)
        self._limit_s = 60 * (train.minutes or 0.0)
        self._target = evaluate.target_quality if train.stop_at_target else None
        self._agreement = StepAgreement("time_is_up", store, self._rank, context.workers, train, wait_for_device)
        self._has_come = False

    def steps_left(self, step: int) -> int | None:
        """The number of steps from this one on; None if time ends the training."""
        return None if self._total is None else self._total - step

    def has_come(self, step: int, trained_s: Callable[[], float]) -> bool:
        """Whether training ends before this step; `trained_s`: the time of training so far."""
        if self._total is not None:
            self._has_come |= step >= self._total
        elif not self._has_come and step >= MIN_STEPS_OF_MINUTES and trained_s() >= self._limit_s:
            self._has_come = self._agreement.is_due(step)
        return self._has_come

    def is_reached_by(self, quality: float | None, epoch: int) -> bool:
        """Whether training ends at the target with this evaluation; the quality is rank 0's. Collective."""
        if self._target is None:
            return False
        target, key = self._target, f"trainmark/target/{epoch}"
        reached = broadcast(
            self._store, self._rank, key, lambda: "yes" if quality is not None and quality >= target else "no"
        )
        return reached == "yes"
