"""RunFolder: the path of each file of a run; the folder mirrors the flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


def member_name(member: int) -> str:
    """The folder name of a member."""
    return f"{member:04d}"


def is_named(run_id: str, name: str) -> bool:
    """Whether a name fits a run's id: as its beginning, or as its beginning and its end (20261115-045355-efc0)."""
    first, _, last = name.rpartition("-")
    return run_id.startswith(name) or (bool(first) and run_id.startswith(first) and run_id.endswith(f"-{last}"))


def _numbers_in(folder: Path) -> list[int]:
    """The numbers of records such as 0001.json; other files are passed over."""
    stems = [path.stem for path in folder.glob("*.json")]
    return [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]


def _names_in(folder: Path) -> list[str]:
    """Names of attempts; a run may have thousands of members without any, and this is asked at every look."""
    try:
        return [path.name for path in folder.iterdir() if path.name.startswith("attempt-") and path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


@dataclass(frozen=True)
class CheckpointFolder:
    """A member's training state at one step: a file per rank, and a mark that all of them are there."""

    path: Path

    @property
    def step(self) -> int:
        """The step before which the state was saved."""
        return int(self.path.name.removeprefix("checkpoint-"))

    def rank(self, rank: int) -> Path:
        """What one rank needs to go on."""
        of_earlier_versions = self.path / f"rank-{rank}.pt"
        return of_earlier_versions if of_earlier_versions.exists() else self.path / f"rank-{rank}.state"

    @property
    def complete(self) -> Path:
        """Exists if and only if every rank's file was written to its end; holds their checksums."""
        return self.path / "complete"


@dataclass(frozen=True)
class AttemptFolder:
    """One try at training a member."""

    path: Path
    events: Path

    def rank_log(self, rank: int) -> Path:
        """What a rank printed."""
        return self.path / f"rank-{rank}.log"

    @property
    def mpirun_log(self) -> Path:
        """What mpirun printed, and ranks before they had a log of their own."""
        return self.path / "mpirun.log"

    @property
    def job_log(self) -> Path:
        """What a batch job's script printed: the site's setup, and srun or mpirun themselves."""
        return self.path / "job.log"

    @property
    def failed(self) -> Path:
        """Marks that a rank has failed, where the exit codes of single ranks are not seen."""
        return self.path / "failed"

    def rank_events(self, rank: int) -> Path:
        """What a rank measured, one JSON object a line."""
        return self.events / f"rank-{rank}.jsonl"

    def usage(self, node: int) -> Path:
        """What the member used of one of its nodes over time, one JSON object a line; its nodes count from 0."""
        return self.events / f"usage-{node}.jsonl"

    def ready(self, rank: int) -> Path:
        """Marks that a rank is set up and waits for the common start."""
        return self.path / f"ready-{rank}"

    def staged(self, rank: int) -> Path:
        """Says that the first rank of a node has staged the member's samples there, or why it could not."""
        return self.path / f"staged-{rank}.json"

    @property
    def go(self) -> Path:
        """Holds the wall-clock time at which all waiting ranks start."""
        return self.path / "go"

    @property
    def rendezvous(self) -> Path:
        """Where rank 0 says how to reach it."""
        return self.path / "rendezvous.json"

    def checkpoint(self, step: int) -> CheckpointFolder:
        """The member's state before a step."""
        return CheckpointFolder(self.path / f"checkpoint-{step:09d}")

    def checkpoints(self) -> list[CheckpointFolder]:
        """All of this attempt, whole or not, oldest first."""
        return [CheckpointFolder(path) for path in sorted(self.path.glob("checkpoint-*"))]

    @property
    def predictions(self) -> Path:
        """The trained member's predictions of held-out and out-of-bag samples."""
        return self.path / "predictions.npz"

    @property
    def done(self) -> Path:
        """The completion record: exists if and only if the member was trained to the end."""
        return self.path / "done.json"

    @property
    def trained(self) -> Path:
        """Marks that the member is trained, and holds until when it waits for members beside it to be so as well."""
        return self.path / "trained"

    @property
    def exit(self) -> Path:
        """How the attempt ended, as the launcher saw it."""
        return self.path / "exit.json"

    @property
    def status(self) -> Path:
        """The exit code of a job's ranks, as the job itself saw it."""
        return self.path / "status"


class Places(NamedTuple):
    """Where runs are stored, and where the data are that trainmark makes for them and keeps for later ones."""

    runs: Path
    data: Path

    @classmethod
    def of(cls, runs_dir: Path, data_dir: Path | None = None) -> "Places":
        """Data are made in the runs' folder, unless another was chosen; that is the same wherever ranks work."""
        return cls(runs_dir, runs_dir / "data" if data_dir is None else data_dir.expanduser().resolve())


@dataclass(frozen=True)
class RunFolder:
    """All files of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id is its folder's name."""
        return self.path.name

    def name_of(self, path: Path) -> str:
        """The name of a file of the run, as it reads from the run's folder."""
        return str(path.relative_to(self.path))

    @property
    def config(self) -> Path:
        """The resolved RunConfig."""
        return self.path / "config.toml"

    @property
    def site(self) -> Path:
        """The Site on which the run was planned."""
        return self.path / "site.toml"

    @property
    def plan(self) -> Path:
        """The Plan."""
        return self.path / "plan.json"

    @property
    def origin(self) -> Path:
        """When, where and with which software the run was begun."""
        return self.path / "origin.json"

    def identity(self) -> dict[str, Any]:
        """What a record of a process or job keeps, so that it is not taken for that of a copy of this folder."""
        return {"path": str(self.path), "inode": self.path.stat().st_ino}

    def is_owner_of(self, record: Mapping[str, Any]) -> bool:
        """Whether a record with an identity was made in this folder; one without, of an earlier version, was.

        A moved folder keeps its inode, one that is mounted elsewhere too; a copy has another path and another inode.
        """
        of = record.get("folder")
        return of is None or of["path"] == str(self.path) or of["inode"] == self.path.stat().st_ino

    def claim(self, number: int) -> Path:
        """Which process works, or worked, on this run; claims count from 1, and the newest holds."""
        return (
            self.path / "claims" / f"{number:04d}.json" if number else self.path / "launcher.json"
        )  # 0: of earlier versions

    def newest_claim(self) -> int:
        """The number of the newest claim; 0 where there was none."""
        return max(_numbers_in(self.path / "claims"), default=0)

    def reserve(self, what: str) -> Path:
        """Space kept back so that the end of a run ("exit", "result") can still be written on a full disk."""
        return self.path / f".reserve-{what}"

    @property
    def bootstrap(self) -> Path:
        """The bootstrap indices and their audit."""
        return self.path / "bootstrap"

    @property
    def result(self) -> Path:
        """The Result."""
        return self.path / "result.json"

    def earlier_result(self, number: int) -> Path:
        """A Result that was stored before files of the run were damaged."""
        return self.path / f"result-{number}.json"

    def bootstrap_counts(self, member: int) -> Path:
        """How often each training sample stands in a member's bootstrap."""
        return self.bootstrap / f"{member_name(member)}.npy"

    @property
    def bootstrap_audit(self) -> Path:
        """What the sampler drew, member by member."""
        return self.bootstrap / "audit.json"

    def job(self, member: int) -> Path:
        """The folder of a member's job."""
        return self.path / "jobs" / member_name(member)

    def job_record(self, member: int) -> Path:
        """What a member's ranks need to know."""
        return self.job(member) / "job.json"

    def job_script(self, member: int) -> Path:
        """The commands of a member's job, runnable by hand."""
        return self.job(member) / "job.sh"

    def submission_record(self, number: int) -> Path:
        """Which tries were given to a scheduler together, and the number of their job."""
        return self.path / "submissions" / f"{number:04d}.json"

    def submission_script(self, number: int) -> Path:
        """What was given to the scheduler."""
        return self.path / "submissions" / f"{number:04d}.sh"

    def submission_output(self, number: int) -> Path:
        """Where what a submission's jobs print goes."""
        return self.path / "submissions" / f"{number:04d}.log"

    def submission_numbers(self) -> list[int]:
        """All submissions of the run, oldest first."""
        return sorted(_numbers_in(self.path / "submissions"))

    def attempt(self, member: int, attempt: int) -> AttemptFolder:
        """The folder of one try at a member; attempts count from 1."""
        name = f"attempt-{attempt}"
        return AttemptFolder(self.job(member) / name, self.path / "events" / member_name(member) / name)

    def num_attempts(self, member: int) -> int:
        """The number of the newest try at a member; 0 where there was none."""
        folders = (self.job(member), self.path / "events" / member_name(member))
        found = [name.removeprefix("attempt-") for folder in folders for name in _names_in(folder)]
        return max((int(number) for number in found if number.isascii() and number.isdigit()), default=0)
