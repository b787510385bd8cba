"""Every listed study: it plans on this machine, runs at its smallest, and makes tables and figures of what there is."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Command
from trainmark.machine.local_site import local_site
from trainmark.plan.explain import Source
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.spec.table import Table
from trainmark.studies.make import Asked, make_study
from trainmark.studies.outcomes import Outcome, Outcomes, PointOutcomes
from trainmark.studies.record import StudyRecord
from trainmark.studies.study import Study

FEW = ("--set", "data.num_train=512", "--set", "data.num_eval=128")
REASON = "failed: rank 0 failed: something broke"


@pytest.fixture(params=list(STUDIES))
def study(request: pytest.FixtureRequest) -> Study:
    found: Study = STUDIES.load(request.param)
    assert found.name == request.param
    return found


def smallest(study: Study, folder: Path) -> StudyRecord:
    return make_study(study, Asked(is_smallest=True), local_site(), Places.of(folder))


def test_its_texts_are_short_and_its_axes_are_flags(study: Study) -> None:
    for text in (study.title, study.description, study.documents):
        assert text and not text.endswith(".") and "\n" not in text
    assert len({axis.name for axis in study.axes}) == len(study.axes)
    assert all(re.fullmatch("[a-z][a-z0-9-]*", axis.name) and axis.help for axis in study.axes)


@pytest.mark.parametrize("size", ["tiny", "full"])
def test_its_points_are_planned_with_distinct_labels_and_nothing_is_written(
    study: Study, size: str, tmp_path: Path
) -> None:
    asked = Asked([Source("--size", {"size": size})], is_smallest=size == "tiny")
    try:
        record = make_study(study, asked, local_site(), Places.of(tmp_path))
    except TrainmarkError as error:  # data of a real dataset, which are not here, or a small machine
        assert size == "full" and ("data.path" in str(error) or "out of memory" in str(error))
        return
    labels = [planned.point.label for planned in record.points]
    assert len(set(labels)) == len(labels)
    assert list(tmp_path.iterdir()) == []


def test_failed_and_missing_runs_are_gaps_in_its_table_and_figures(study: Study, tmp_path: Path) -> None:
    record = smallest(study, tmp_path)
    points = tuple(
        PointOutcomes(planned.point, (Outcome(1, "r", reason=REASON),), planned.refused) for planned in record.points
    )
    outcomes = Outcomes(points, 1, record.max_spread, record.axes, record.base, local_site())
    table = study.analyse(outcomes)
    assert Table.model_validate_json(table.as_json()) == table
    for figure in study.figures(table):
        assert figure.name and figure.caption
        _ = figure.svg


def test_at_its_smallest_it_runs_and_leaves_table_and_figures(
    study: Study, warm_trainmark: Command, tmp_path: Path
) -> None:
    is_generated = study.overrides("tiny").get("dataset") != "synthetic"  # synthetic data are as many as are used
    done = warm_trainmark("study", study.name, "--smallest", "--json", *(FEW if is_generated else ()))
    assert done.returncode == 0, done.stderr
    folder = Path(json.loads(done.stdout)["path"])
    table = Table.model_validate_json((folder / "table.json").read_bytes())
    assert table.rows and "no run has a Result" not in table.caption
    figures = list(folder.glob("*.svg"))
    assert figures and {path.stem for path in figures} == {path.stem for path in folder.glob("*.pdf")}
    assert all(len(path.read_text()) > 1000 for path in figures)
