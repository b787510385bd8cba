"""EndRequest: a member that is asked to end early ends at one step that all its ranks agree on."""

from collections.abc import Callable
from types import FrameType

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.train.shared_store import Store
from trainmark.train.step_agreement import StepAgreement


class EndedEarlyError(TrainmarkError):
    """The member ended on request; it can be resumed from its checkpoint."""


class EndRequest:
    """Records that this rank was asked to end; without a request, a step costs one check of a flag."""

    def __init__(self) -> None:
        self._is_asked = False
        self._agreement: StepAgreement | None = None

    def on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Signal handler: this rank is asked to end."""
        self._is_asked = True

    def connect(
        self, store: Store | None, rank: int, workers: int, train: TrainConfig, wait_for_device: Callable[[], None]
    ) -> None:
        """From now on the ranks of the member agree on the step through the store."""
        self._agreement = StepAgreement("asked_to_end", store, rank, workers, train, wait_for_device)

    def is_due(self, step: int) -> bool:
        """Whether the member ends before this step."""
        return self._is_asked and (self._agreement is None or self._agreement.is_due(step))
