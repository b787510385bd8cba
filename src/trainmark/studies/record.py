"""StudyRecord: study.json, which names every point, repeat and run before anything starts; and its folder."""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from trainmark.spec.config import Section, Setting
from trainmark.spec.config_file import read_site
from trainmark.spec.errors import RunNotFoundError
from trainmark.spec.files import one_line, read_regular, write_text
from trainmark.spec.run_folder import RunFolder, matches_id
from trainmark.spec.site import Site
from trainmark.spec.validation_errors import describe_error
from trainmark.studies.point import Point

RESUME = "trainmark study resume"
ALL = "all"  # the study of studies
NAMED = 5  # studies in a message
CANNOT_RUN = "cannot run: "
MAX_RUNS = 10_000  # a typo in a range would plan for hours
FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def _folder_name(text: str) -> str:
    if not FOLDER_NAME.fullmatch(text):
        raise ValueError("must be the name of a folder: letters, digits, '.', '_' and '-'")
    return text


FolderName = Annotated[str, AfterValidator(_folder_name)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]


class PlannedPoint(Section):
    """A point, why it cannot run if so, and the expected seconds and nodes of one run."""

    point: Point
    refused: str | None = None
    seconds: tuple[Seconds, Seconds] | None = None  # None: unknown
    limit_seconds: Seconds | None = None  # the time limit of its jobs, if they have one
    nodes: int = Field(1, ge=1)


class PlannedStudyRun(Section):
    """One repeat of one point."""

    point: int
    round: int
    run_id: str


class StudyRecord(Section):
    """Everything that a study is about to do; points are only ever added."""

    schema_: Literal["trainmark.study/1"] = Field("trainmark.study/1", alias="schema")
    study_id: FolderName
    study: str
    started_at: str
    code_version: str
    command: str = ""  # that repeats the study; empty of studies that earlier versions made
    repeats: int = Field(ge=1, le=MAX_RUNS)
    seed: int = Field(ge=0)
    max_spread: float = Field(ge=0)
    axes: dict[str, tuple[Setting, ...]]
    base: dict[str, Any]  # nested settings of all points
    is_smallest: bool = False
    data_dir: str | None = None  # None: the default in the runs folder
    points: tuple[PlannedPoint, ...] = ()
    runs: tuple[PlannedStudyRun, ...] = ()  # in the order in which they start
    runs_at_start: int | None = None  # None: all; a search adds to them
    most_more: int = 0  # runs that a search may add
    parts: dict[str, str] = Field(default_factory=dict)  # of `all`: name of a study → its id, or why it cannot run

    @model_validator(mode="after")
    def _runs_are_those_of_the_points(self) -> "StudyRecord":
        """Runs are found, written and set aside by these ids: no other folder may be named."""
        can_run = [number for number, planned in enumerate(self.points) if planned.refused is None]
        expected = len(can_run) * self.repeats
        named = {(run.point, run.round) for run in self.runs}
        rounds = range(1, self.repeats + 1)
        if len(self.runs) != expected or named != {(point, round_) for point in can_run for round_ in rounds}:
            raise ValueError(f"must have one run per point and round, {expected} in all, but lists {len(self.runs)}")
        for run in self.runs:
            if run.run_id != (own := run_id_of(self.study_id, run.point, run.round)):
                raise ValueError(f"must call its runs by point and round, but calls {own} {run.run_id!r}")
        for part in self.part_ids():
            _folder_name(part)
        launch = self.base.get("launch", {})
        if not isinstance(launch, dict) or not isinstance(launch.get("launcher", ""), str):
            raise ValueError("must have a section base.launch, whose launcher is a name")
        return self

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
        """The runs folder, in which `studies` may be a link."""
        return self.path.parent.parent.resolve()

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
        """What was in a run's place before it was trained afresh."""
        return self.path / "interrupted" / f"{run_id}-{number}"

    def figure(self, name: str, suffix: str) -> Path:
        """A figure as SVG or PDF."""
        return self.path / f"{re.sub(r'[^A-Za-z0-9-]+', '-', name)}.{suffix}"

    def run(self, run_id: str) -> RunFolder:
        """The folder of one of its runs; links are not followed."""
        return RunFolder(self.runs_dir / run_id)

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
        return StudyRecord.model_validate_json(read_regular(folder.record))
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'it'} {describe_error(first)}"
    except (OSError, ValueError) as error:
        reason = one_line(error)
    raise RunNotFoundError(
        f"{folder.record} cannot be read: {reason}. Its runs are stored beside it: trainmark results lists them."
    ) from None


def read_study_site(folder: StudyFolder) -> Site:
    """Reads site.toml; raises with what is wrong with it."""
    try:
        return read_site(folder.site)
    except (OSError, ValueError) as error:
        raise RunNotFoundError(
            f"{folder.site} cannot be read: {one_line(error)}. Restore it from a copy; a run of the study has one."
        ) from None


def all_studies(runs_dir: Path) -> list[StudyFolder]:
    """Returns all studies of a runs folder, oldest first."""
    folder = studies_dir(runs_dir)
    try:
        paths = sorted(folder.iterdir(), key=_age)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunNotFoundError(
            f"Studies cannot be read from {folder.absolute()}: {one_line(error)}. Choose another --runs-dir."
        ) from None
    return [StudyFolder(path.absolute()) for path in paths if _is_study(path)]


def _is_study(path: Path) -> bool:
    """Whether the folder is a study; one without read permission may be, and reading it says so."""
    try:
        return (path / "study.json").exists()
    except PermissionError:
        return True
    except OSError:  # such as ENAMETOOLONG
        return False


def _age(path: Path) -> tuple[str, bool, str]:
    """Orders folders by the time in their id; of one second `all` is the last, as it is made after its parts."""
    time, name = path.name[:15], path.name[16:]
    return time, name.rpartition("-")[0] == ALL, path.name


def find_study(name: str, runs_dir: Path) -> StudyFolder:
    """Finds a study by id, unique prefix, path or `latest`."""
    if _is_study(Path(name)):
        path = Path(name).absolute()
        # Runs are beside `studies`, also where that is a link; a link from elsewhere is followed.
        return StudyFolder(path if path.parent.name == studies_dir(runs_dir).name else path.resolve())
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
