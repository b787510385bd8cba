"""MemberProgress: what one member is doing at one moment."""

from dataclasses import dataclass

from trainmark.spec.queue import QueueState

GOING_ON = ("starting", "staging", "training", "predicting")


@dataclass(frozen=True)
class MemberProgress:
    """One member at one moment."""

    member: int
    state: str = "waiting"
    phase: str = ""  # what a member that has not trained a step yet is at
    attempt: int = 0
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    loss: float | None = None
    samples_per_s: float | None = None
    quality: float | None = None
    seconds_left: float | None = None
    job: QueueState | None = None  # as a scheduler sees it, where there is one
