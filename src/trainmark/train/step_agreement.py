"""StepAgreement: the ranks of a member agree on the step at which all of them end, without a collective per step."""

from collections.abc import Callable

from trainmark.spec.config import TrainConfig
from trainmark.train.shared_store import Store


class StepAgreement:
    """One step that all ranks learn of before any of them has passed it.

    The reason to end reaches ranks at different times. Each continues training and reports it once; when all have, rank
    0 sets a step that none of them can have passed. Nothing is exchanged before the first rank has a reason.
    """

    def __init__(
        self,
        name: str,
        store: Store | None,
        rank: int,
        workers: int,
        train: TrainConfig,
        wait_for_device: Callable[[], None],
    ) -> None:
        self._reported, self._end_at_key = f"trainmark/{name}", f"trainmark/{name}/end_at"
        self._store, self._rank, self._workers = store, rank, workers
        self._wait_for_device = wait_for_device
        self._has_reported = False
        self._end_at: int | None = None
        # Ranks that exchange gradients in every step are at most one step apart; otherwise up to one averaging period.
        self._lead = 2 + (train.averaging_steps if train.communication == "local-sgd" else 0)
        # With a parameter server ranks are any number of steps apart.
        self._is_possible = workers == 1 or train.communication != "parameter-server"

    def is_due(self, step: int) -> bool:
        """Whether the member ends before this step; called in every step from when this rank has a reason to end."""
        if not self._is_possible:
            return False
        return self._store is None or self._is_agreed(self._store, step)

    def _is_agreed(self, store: Store, step: int) -> bool:
        if self._end_at is None:  # else a host may be many steps ahead of its accelerator, and so of other ranks
            self._wait_for_device()
        if not self._has_reported:
            store.add(self._reported, 1)
            self._has_reported = True
        if self._end_at is None and self._rank == 0 and store.add(self._reported, 0) == self._workers:
            store.set(self._end_at_key, str(step + self._lead))
        if self._end_at is None and store.check([self._end_at_key]):
            self._end_at = int(store.get(self._end_at_key))
        return self._end_at is not None and step >= self._end_at
