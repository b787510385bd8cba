"""The command of each rank, once as an argument list to run and once as a line of a script to read."""

import shlex
import sys
from typing import NamedTuple

from trainmark.launch.environment import rank_environment
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank


class RankCommand(NamedTuple):
    """What starts a rank, and the variables it is given."""

    argv: tuple[str, ...]
    environment: dict[str, str]

    def as_shell(self) -> str:
        """The same as one line of shell, every word quoted."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*variables, *(shlex.quote(word) for word in self.argv)])


def as_comment(text: str) -> str:
    """One comment line: a line break in `text` would end the comment and have the rest executed."""
    return "# " + "".join(letter if letter.isprintable() else "?" for letter in text)


def rank_command(
    record: JobRecord, rank: Rank, attempt: int, launcher_environment: dict[str, str], *, supervised_by: int | None
) -> RankCommand:
    """The command that starts one rank of one attempt at a member; a launcher may add variables of its own."""
    argv = [*worker_words(record), "--rank", str(rank.rank), "--attempt", str(attempt)]
    if supervised_by is not None:
        # What starts a container may stay between the launcher and the rank, whose parent is then another process.
        leash = ["--end-with-input"] if record.site.container else ["--supervised-by", str(supervised_by)]
        argv += ["--wait-for-start", *leash]
    return RankCommand(tuple(argv), {**rank_environment(record.config.launch, rank), **launcher_environment})


def worker_words(record: JobRecord) -> list[str]:
    """What starts a worker of the member on its node: the site's container and Python, and the job's record."""
    site = record.site
    job_file = str(record.folder.job_record(record.job.member))
    # -P: nothing is imported from the folder in which the worker happens to be started
    return [*site.container, site.python or sys.executable, "-P", "-m", "trainmark.train.worker", job_file]
