"""NodeUsage: what a member used of one of its nodes over time, read back."""

from typing import NamedTuple

from trainmark.collect.damage import Problem, read_rank
from trainmark.spec.event_files import first_of
from trainmark.spec.machine_events import Usage, UsageStart
from trainmark.spec.plan import Job
from trainmark.spec.run_folder import AttemptFolder, RunFolder


class NodeUsage(NamedTuple):
    """The series of one node of a member; `rank` is the one that sampled it, `file` its name in the run folder."""

    node: str
    rank: int
    file: str
    start: UsageStart
    samples: tuple[Usage, ...]
    problem: Problem = None


def read_usage(folder: RunFolder, attempt: AttemptFolder, job: Job, *, is_over: bool) -> tuple[NodeUsage, ...]:
    """The series of a member's nodes; a node that left none is left out."""
    found = []
    for number, node in enumerate(job.nodes):
        path = attempt.usage(number)
        events, problem = read_rank(folder, path, is_over=is_over)
        start = first_of(UsageStart, events)
        if start is not None:
            rank = next(rank.rank for rank in job.ranks if rank.node == node)
            samples = tuple(event for event in events if isinstance(event, Usage))
            found.append(NodeUsage(node, rank, folder.name_of(path), start, samples, problem))
    return tuple(found)
