"""StudyRecord: study.json, which names every point, repeat and run before anything starts; and its folder."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from trainmark.spec.config import Section, Setting
from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.files import one_line, write_text
from trainmark.spec.run_folder import RunFolder, matches_id
from trainmark.spec.validation_errors import describe_error
from trainmark.studies.outcomes import Point

ALL = "all"  # the study of studies
NAMED = 5  # studies in a message
CANNOT_RUN = "cannot run: "


class PlannedPoint(Section):
    """A point, why it cannot run if so, and the expected seconds and nodes of one run."""

    point: Point
    refused: str | None = None
    seconds: tuple[float, float] | None = None  # None: unknown
    limit_seconds: float | None = None  # the time limit of its jobs, if they have one
    nodes: int = 1


class PlannedStudyRun(Section):
    """One repeat of one point."""

    point: int
    round: int
    run_id: str


class StudyRecord(Section):
    """Everything that a study is about to do; points are only ever added."""

    schema_: Literal["trainmark.study/1"] = Field("trainmark.study/1", alias="schema")
    study_id: str
    study: str
    started_at: str
    code_version: str
    command: str = ""  # that repeats the study; empty of studies that earlier versions made
    repeats: int
    seed: int
    max_spread: float
    axes: dict[str, tuple[Setting, ...]]
    base: dict[str, Any]  # nested settings of all points
    is_smallest: bool = False
    data_dir: str | None = None  # None: the default in the runs folder
    points: tuple[PlannedPoint, ...] = ()
    runs: tuple[PlannedStudyRun, ...] = ()  # in the order in which they start
    runs_at_start: int | None = None  # None: all; a search adds to them
    most_more: int = 0  # runs that a search may add
    parts: dict[str, str] = Field(default_factory=dict)  # of `all`: name of a study → its id, or why it cannot run

    @property
    def num_at_start(self) -> int:
        """Runs that were known before anything ran; a search adds to them."""
        return self.runs_at_start if self.runs_at_start is not None else len(self.runs)

    def runs_of(self, point: int) -> list[PlannedStudyRun]:
        """Returns the repeats of a point, by round."""
        return sorted((run for run in self.runs if run.point == point), key=lambda run: run.round)

    def refused_parts(self) -> dict[str, str]:
        """Returns why studies in `all` cannot run, by name."""
        return {name: found for name, found in self.parts.items() if found.startswith(CANNOT_RUN)}

    def part_ids(self) -> list[str]:
        """Returns the ids of the studies in `all` that can run."""
        return [found for found in self.parts.values() if not found.startswith(CANNOT_RUN)]


@dataclass(frozen=True)
class StudyFolder:
    """The files of one study: `studies/<id>` in the runs folder."""

    path: Path

    @property
    def study_id(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def runs_dir(self) -> Path:
        """The runs folder."""
        return self.path.parent.parent

    @property
    def record(self) -> Path:
        """The StudyRecord."""
        return self.path / "study.json"

    @property
    def site(self) -> Path:
        """The Site on which the study was planned."""
        return self.path / "site.toml"

    @property
    def csv(self) -> Path:
        """The table, for spreadsheets and scripts."""
        return self.path / "table.csv"

    @property
    def table(self) -> Path:
        """The table with units, caption and findings."""
        return self.path / "table.json"

    @property
    def page(self) -> Path:
        """The report."""
        return self.path / "report.html"

    def failure(self, run_id: str) -> Path:
        """Why a run ended without a Result when it was last tried."""
        return self.path / "failures" / f"{run_id}.txt"

    def interrupted(self, run_id: str, number: int) -> Path:
        """The folder of a run that was interrupted and trained afresh."""
        return self.path / "interrupted" / f"{run_id}-{number}"

    def figure(self, name: str, suffix: str) -> Path:
        """A figure as SVG or PDF."""
        return self.path / f"{re.sub(r'[^A-Za-z0-9-]+', '-', name)}.{suffix}"

    def run(self, run_id: str) -> RunFolder:
        """The folder of one of its runs."""
        return RunFolder((self.runs_dir / run_id).resolve())

    def as_claimable(self) -> RunFolder:
        """The folder as claims see it: one process at a time works on a study."""
        return RunFolder(self.path)


def studies_dir(runs_dir: Path) -> Path:
    """The folder of all studies of a runs folder."""
    return runs_dir / "studies"


def new_study_id(name: str, now: datetime) -> str:
    """Returns a unique id that starts with the time, as those of runs."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{name}-{secrets.token_hex(2)}"


def run_id_of(study_id: str, point: int, round_: int) -> str:
    """Returns the id of a study's run; known before it exists, so that a killed study finds it again."""
    return f"{study_id}-p{point:03d}r{round_}"


def write_record(folder: StudyFolder, record: StudyRecord) -> None:
    """Writes study.json atomically."""
    write_text(folder.record, record.model_dump_json(by_alias=True, indent=2) + "\n")


def read_study(folder: StudyFolder) -> StudyRecord:
    """Reads study.json; raises with the file's name and what is wrong with it."""
    try:
        return StudyRecord.model_validate_json(folder.record.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'it'} {describe_error(first)}"
    except (OSError, ValueError) as error:
        reason = one_line(error)
    raise RunNotFoundError(
        f"{folder.record} cannot be read: {reason}. Its runs are stored beside it: trainmark results lists them."
    ) from None


def all_studies(runs_dir: Path) -> list[StudyFolder]:
    """Returns all studies of a runs folder, oldest first."""
    try:
        paths: Sequence[Path] = sorted(studies_dir(runs_dir).iterdir(), key=_age)
    except OSError:
        return []
    return [StudyFolder(path.resolve()) for path in paths if (path / "study.json").exists()]


def _age(path: Path) -> tuple[str, bool, str]:
    """Orders folders by the time in their id; of one second `all` is the last, as it is made after its parts."""
    time, name = path.name[:15], path.name[16:]
    return time, name.rpartition("-")[0] == ALL, path.name


def find_study(name: str, runs_dir: Path) -> StudyFolder:
    """Finds a study by id, unique prefix, path or `latest`."""
    if (Path(name) / "study.json").exists():
        return StudyFolder(Path(name).resolve())
    studies = all_studies(runs_dir)
    if not studies:
        raise RunNotFoundError(
            f"No studies in {studies_dir(runs_dir).resolve()}. Start one with: trainmark study NAME "
            "(trainmark list studies), or choose another --runs-dir."
        )
    if name == "latest":
        return studies[-1]
    matches = [each for each in studies if each.study_id == name] or [
        each for each in studies if matches_id(each.study_id, name)
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        newest = ", ".join(each.study_id for each in reversed(studies[-NAMED:]))
        raise RunNotFoundError(f"No study is called '{name}'. The newest: {newest}.")
    ids = ", ".join(each.study_id for each in matches[:NAMED])
    raise RunNotFoundError(f"'{name}' matches {len(matches)} studies: {ids}. Give more of the id.")
