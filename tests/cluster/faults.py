"""Effects of faults on a run on Slurm: expected by the tests, and the table in docs/reliability.md.

`python -m tests.cluster.faults` prints the table.
"""

from typing import NamedTuple


class Outcome(NamedTuple):
    """The outcome of one fault."""

    fault: str
    member: str  # state of the affected member
    reason: str  # its reason
    run: str  # state of the Result
    then: str


OUTCOMES = {
    "rank": Outcome(
        "a rank is killed (SIGKILL)",
        "failed",
        "rank 0 killed by signal 9 (SIGKILL)",
        "partial",
        "`resume` makes a new attempt from the last checkpoint",
    ),
    "one-of-two": Outcome(
        "rank 1 of 2 is killed (SIGKILL)",
        "failed",
        "rank 1 killed by signal 9 (SIGKILL)",
        "failed",
        "the member's other ranks end too, and are not blamed; `resume` makes a new attempt",
    ),
    "scancel": Outcome(
        "a member's job is cancelled with `scancel`",
        "stopped",
        "cancelled by a user (CANCELLED)",
        "unfinished",
        "never tried again by itself; `resume` makes a new attempt",
    ),
    "set-down": Outcome(
        "a node is set down",
        "failed",
        "a node failed (NODE_FAIL)",
        "partial",
        "`resume` makes a new attempt on another node",
    ),
    "power": Outcome(
        "a node loses power",
        "finished",
        "a node failed (NODE_FAIL)",
        "complete",
        "with `launch.attempts=2` a second attempt follows by itself, from the last checkpoint",
    ),
    "network": Outcome(
        "a node is cut off from the network",
        "failed",
        "a node failed (NODE_FAIL)",
        "failed",
        "the member's other ranks end too; `resume` makes a new attempt",
    ),
    "time-limit": Outcome(
        "the time limit comes near",
        "failed",
        "asked to end by SIGUSR2",
        "failed",
        "a checkpoint is written at the very step; `resume` goes on from there",
    ),
    "disk": Outcome(
        "the shared disk is full",
        "failed",
        "no space left where the run is stored",
        "failed",
        "once there is space, `resume` goes on from the last checkpoint",
    ),
    "setup": Outcome(
        "a line of the site's `setup` ends the job",
        "failed",
        "setup failed with exit code 3: exit 3; it printed: the licence has expired",
        "failed",
        "mend it in the site file and start a new run",
    ),
    "submitter": Outcome(
        "the submitting process is killed (SIGKILL)",
        "finished",
        "",
        "complete",
        "jobs go on; `resume` watches and collects them, without new attempts",
    ),
    "controller": Outcome(
        "slurmctld stops and comes back",
        "finished",
        "",
        "complete",
        "the submitter waits until it answers again; meanwhile `status` says what the files say, and `cancel` that "
        "nothing was cancelled",
    ),
}


def table() -> str:
    """Returns the faults and their outcomes as Markdown."""
    rows = [
        f"| {each.fault} | {each.member} | {each.reason or '–'} | {each.run} | {each.then} |"
        for each in OUTCOMES.values()
    ]
    return "\n".join(["| fault | member | its reason says | Result | then |", "|---|---|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    print(table(), end="")
