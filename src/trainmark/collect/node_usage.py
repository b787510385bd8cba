"""NodeUsage: what a member used of one of its nodes over time, read back."""

from typing import NamedTuple

from trainmark.spec.event import Event, read_events
from trainmark.spec.plan import Job
from trainmark.spec.run_folder import AttemptFolder, RunFolder


class NodeUsage(NamedTuple):
    """The series of one node of a member; `rank` is the one that sampled it, `file` its name in the run folder."""

    node: str
    rank: int
    file: str
    start: Event
    samples: tuple[Event, ...]


def read_usage(folder: RunFolder, attempt: AttemptFolder, job: Job) -> tuple[NodeUsage, ...]:
    """The series of a member's nodes; a node that left none is left out."""
    found = []
    for number, node in enumerate(job.nodes):
        path = attempt.usage(number)
        events = read_events(path)[0]
        start = next((event for event in events if event["kind"] == "usage_start"), None)
        if start is not None:
            rank = next(rank.rank for rank in job.ranks if rank.node == node)
            samples = tuple(event for event in events if event["kind"] == "usage")
            found.append(NodeUsage(node, rank, folder.name_of(path), start, samples))
    return tuple(found)
