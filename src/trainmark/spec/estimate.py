"""What is expected of a run before anything is measured; never mixed with what was measured."""

from dataclasses import dataclass

Range = tuple[float, float]  # least, most
STEPS_FOR_SPEED = 40  # enough to tell warm-up from steady state


@dataclass(frozen=True)
class StoredSpeed:
    """What a core of this machine could do in a stored run, and the share of it that the same model reached, if any."""

    run_id: str
    ceiling_flops: float
    share: float | None


@dataclass(frozen=True)
class Estimate:
    """Seconds of the whole run and bytes of one worker; None where nothing is known. `basis` says from what, or why."""

    seconds: Range | None
    worker_bytes: Range | None
    basis: str
    workers_at_a_time: int
    available_bytes: int | None  # memory of this machine; None where workers run elsewhere
