"""EndRequest: a member that is asked to end early ends at one step that all its ranks agree on."""

from collections.abc import Callable
from types import FrameType

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.train.shared_store import Store

ASKED, END_AT = "trainmark/asked_to_end", "trainmark/end_at"


class EndedEarlyError(TrainmarkError):
    """The member ended on request; it can be resumed from its checkpoint."""


class EndRequest:
    """Records that this rank was asked to end, and agrees with the other ranks on the step at which all of them end.

    The signal reaches ranks at different times. Each continues training and reports the request once; when all have,
    rank 0 sets a step that none of them can have passed. Without a request, a step costs one check of a flag.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._has_reported = False
        self._end_at: int | None = None
        self._store: Store | None = None
        self._rank, self._workers, self._lead = 0, 1, 0
        self._wait_for_device: Callable[[], None] = lambda: None

    def on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Signal handler: this rank is asked to end."""
        self._is_asked = True

    def connect(
        self,
        store: Store | None,
        rank: int,
        workers: int,
        train: TrainConfig,
        wait_for_device: Callable[[], None] = lambda: None,
    ) -> None:
        """From now on the ranks of the member agree on the step through the store."""
        self._store, self._rank, self._workers = store, rank, workers
        self._wait_for_device = wait_for_device
        # Ranks that exchange gradients in every step are at most one step apart; otherwise up to one averaging period.
        self._lead = 2 + (train.averaging_steps if train.communication == "local-sgd" else 0)
        if workers > 1 and train.communication == "parameter-server":  # unbounded: only checkpoints between epochs
            self._workers = 0

    def is_due(self, step: int) -> bool:
        """Whether the member ends before this step."""
        if not self._is_asked or self._workers == 0:
            return False
        return self._store is None or self._is_agreed(self._store, step)

    def _is_agreed(self, store: Store, step: int) -> bool:
        if self._end_at is None:  # else a host may be many steps ahead of its accelerator, and so of other ranks
            self._wait_for_device()
        if not self._has_reported:
            store.add(ASKED, 1)
            self._has_reported = True
        if self._end_at is None and self._rank == 0 and store.add(ASKED, 0) == self._workers:
            store.set(END_AT, str(step + self._lead))
        if self._end_at is None and store.check([END_AT]):
            self._end_at = int(store.get(END_AT))
        return self._end_at is not None and step >= self._end_at
