"""QueueState: what a scheduler says of a member's job at one moment."""

from typing import NamedTuple


class QueueState(NamedTuple):
    """A job as the scheduler sees it: its number, its state in the scheduler's own word, its nodes, why it waits."""

    job_id: str
    state: str
    nodes: str = ""
    reason: str = ""
