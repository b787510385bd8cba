"""RunFolder: the paths of all files of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


def member_name(member: int) -> str:
    """Returns the folder name of a member."""
    return f"{member:04d}"


def matches_id(run_id: str, name: str) -> bool:
    """Whether a name is a prefix of a run id, or a prefix and its suffix (20261115-045355-efc0)."""
    first, _, last = name.rpartition("-")
    return run_id.startswith(name) or (bool(first) and run_id.startswith(first) and run_id.endswith(f"-{last}"))


def _numbers_in(folder: Path) -> list[int]:
    """Returns the numbers of records such as 0001.json; ignores other files."""
    stems = [path.stem for path in folder.glob("*.json")]
    return [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]


def _names_in(folder: Path) -> list[str]:
    """Returns the attempt folders; no glob, as this is polled for thousands of members."""
    try:
        return [path.name for path in folder.iterdir() if path.name.startswith("attempt-") and path.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


@dataclass(frozen=True)
class CheckpointFolder:
    """A member's training state at one step: one file per rank, and a marker that all are complete."""

    path: Path

    @property
    def step(self) -> int:
        """The step before which the state was saved."""
        return int(self.path.name.removeprefix("checkpoint-"))

    def rank(self, rank: int) -> Path:
        """The training state of one rank."""
        of_earlier_versions = self.path / f"rank-{rank}.pt"
        return of_earlier_versions if of_earlier_versions.exists() else self.path / f"rank-{rank}.state"

    @property
    def complete(self) -> Path:
        """Exists if and only if all ranks' files are complete; contains their checksums."""
        return self.path / "complete"


@dataclass(frozen=True)
class AttemptFolder:
    """One attempt at training a member."""

    path: Path
    events: Path

    def rank_log(self, rank: int) -> Path:
        """Output of a rank."""
        return self.path / f"rank-{rank}.log"

    @property
    def mpirun_log(self) -> Path:
        """Output of mpirun, and of ranks before they open their own log."""
        return self.path / "mpirun.log"

    @property
    def job_log(self) -> Path:
        """Output of a batch job's script: the site's setup, srun and mpirun."""
        return self.path / "job.log"

    @property
    def failed(self) -> Path:
        """Marker that a rank has failed, for launchers without per-rank exit codes."""
        return self.path / "failed"

    def rank_events(self, rank: int) -> Path:
        """Events of a rank, one JSON object per line."""
        return self.events / f"rank-{rank}.jsonl"

    def usage(self, node: int) -> Path:
        """Utilisation of one of the member's nodes (from 0) over time, one JSON object per line."""
        return self.events / f"usage-{node}.jsonl"

    def ready(self, rank: int) -> Path:
        """Marker that a rank waits at the start barrier."""
        return self.path / f"ready-{rank}"

    def staged(self, rank: int) -> Path:
        """Outcome of staging on a node, written by the node's first rank."""
        return self.path / f"staged-{rank}.json"

    @property
    def go(self) -> Path:
        """The wall-clock time at which all waiting ranks start."""
        return self.path / "go"

    @property
    def rendezvous(self) -> Path:
        """The address of rank 0."""
        return self.path / "rendezvous.json"

    def checkpoint(self, step: int) -> CheckpointFolder:
        """The member's state before a step."""
        return CheckpointFolder(self.path / f"checkpoint-{step:09d}")

    def checkpoints(self) -> list[CheckpointFolder]:
        """Returns all checkpoints of this attempt, complete or not, oldest first."""
        return [CheckpointFolder(path) for path in sorted(self.path.glob("checkpoint-*"))]

    @property
    def predictions(self) -> Path:
        """The member's predictions of held-out and out-of-bag samples."""
        return self.path / "predictions.npz"

    @property
    def done(self) -> Path:
        """The completion record: exists if and only if training completed."""
        return self.path / "done.json"

    @property
    def trained(self) -> Path:
        """Marker that the member is trained, with the time until which it waits for concurrent members."""
        return self.path / "trained"

    @property
    def exit(self) -> Path:
        """How the attempt ended, written by the launcher."""
        return self.path / "exit.json"

    @property
    def status(self) -> Path:
        """The exit code of a job's ranks, written by the job."""
        return self.path / "status"


class Places(NamedTuple):
    """The runs folder, and the folder of generated datasets shared by all runs."""

    runs: Path
    data: Path

    @classmethod
    def of(cls, runs_dir: Path, data_dir: Path | None = None) -> "Places":
        """Returns the folders; data default to `data` in the runs folder, and a chosen folder is made absolute."""
        return cls(runs_dir, runs_dir / "data" if data_dir is None else data_dir.expanduser().resolve())


@dataclass(frozen=True)
class RunFolder:
    """All files of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The name of the folder."""
        return self.path.name

    def name_of(self, path: Path) -> str:
        """Returns a path relative to the run folder."""
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
        """When, where and with which software the run was started."""
        return self.path / "origin.json"

    def identity(self) -> dict[str, Any]:
        """Returns the identity that records of processes and jobs carry, to detect copied folders."""
        return {"path": str(self.path), "inode": self.path.stat().st_ino}

    def is_owner_of(self, record: Mapping[str, Any]) -> bool:
        """Whether a record was written in this folder and not in the original of a copy.

        A moved or remounted folder keeps its inode; a copy has another path and inode. Records of earlier versions
        carry no identity and count as owned.
        """
        of = record.get("folder")
        return of is None or of["path"] == str(self.path) or of["inode"] == self.path.stat().st_ino

    def claim(self, number: int) -> Path:
        """The process that works, or worked, on this run; claims count from 1, and the newest is valid."""
        return self.claims / f"{number:04d}.json" if number else self.path / "launcher.json"  # 0: of earlier versions

    def newest_claim(self) -> int:
        """Returns the number of the newest claim; 0 if there is none."""
        return max(_numbers_in(self.claims), default=0)

    def reserve(self, what: str) -> Path:
        """Reserved space with which "exit" or "result" can still be written on a full disk."""
        return self.path / f".reserve-{what}"

    @property
    def bootstrap(self) -> Path:
        """The bootstrap indices and their audit."""
        return self.path / "bootstrap"

    @property
    def result(self) -> Path:
        """The Result."""
        return self.path / "result.json"

    @property
    def tags(self) -> Path:
        """Tags and note that the user gave to the run."""
        return self.path / "tags.json"

    @property
    def claims(self) -> Path:
        """The folder of claims."""
        return self.path / "claims"

    def earlier_result(self, number: int) -> Path:
        """A Result stored before files of the run were damaged."""
        return self.path / f"result-{number}.json"

    def bootstrap_counts(self, member: int) -> Path:
        """The multiplicity of each training sample in a member's bootstrap sample."""
        return self.bootstrap / f"{member_name(member)}.npy"

    @property
    def bootstrap_audit(self) -> Path:
        """Statistics of each member's bootstrap sample."""
        return self.bootstrap / "audit.json"

    def job(self, member: int) -> Path:
        """The folder of a member's job."""
        return self.path / "jobs" / member_name(member)

    def job_record(self, member: int) -> Path:
        """The JobRecord of a member."""
        return self.job(member) / "job.json"

    def job_script(self, member: int) -> Path:
        """The commands of a member's job; can be run manually."""
        return self.job(member) / "job.sh"

    def submission_record(self, number: int) -> Path:
        """The attempts in one submission to a scheduler, and its job id."""
        return self.path / "submissions" / f"{number:04d}.json"

    def submission_script(self, number: int) -> Path:
        """The submitted script."""
        return self.path / "submissions" / f"{number:04d}.sh"

    def submission_output(self, number: int) -> Path:
        """Output of a submission's jobs."""
        return self.path / "submissions" / f"{number:04d}.log"

    def submission_numbers(self) -> list[int]:
        """Returns the numbers of all submissions, oldest first."""
        return sorted(_numbers_in(self.path / "submissions"))

    def attempt(self, member: int, attempt: int) -> AttemptFolder:
        """The folder of one attempt at a member; attempts count from 1."""
        name = f"attempt-{attempt}"
        return AttemptFolder(self.job(member) / name, self.path / "events" / member_name(member) / name)

    def num_attempts(self, member: int) -> int:
        """Returns the number of the newest attempt at a member; 0 if there is none."""
        folders = (self.job(member), self.path / "events" / member_name(member))
        found = [name.removeprefix("attempt-") for folder in folders for name in _names_in(folder)]
        return max((int(number) for number in found if number.isascii() and number.isdigit()), default=0)
