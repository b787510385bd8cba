"""Studies of plug-ins that are wrong or fail: one line that names them, and no other study is lost."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.test_studies import HERE, made, study
from trainmark.cli.main import app
from trainmark.spec.errors import ConfigError, StudyError, UnknownNameError
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.studies.axes import parse_values
from trainmark.studies.find import load_study
from trainmark.studies.make import Asked
from trainmark.studies.outcomes import Outcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Axis
from trainmark.studies.whole import make_all

Plug = Callable[[Any], None]


def failing(*arguments: object) -> Any:
    raise KeyError("threads")


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Registers something as the study `probe`."""

    def register(found: Any) -> None:
        module = ModuleType("plugged_study")
        module.__dict__["STUDY"] = found
        monkeypatch.setitem(sys.modules, "plugged_study", module)
        monkeypatch.setattr(STUDIES, "_all", {"schedules": STUDIES["schedules"], "probe": "plugged_study:STUDY"})
        monkeypatch.setattr(STUDIES, "in_listed_order", lambda: ["schedules", "probe"])

    return register


def test_a_study_that_is_right_gives_what_it_gave(plug: Plug, tmp_path: Path) -> None:
    plug(study())
    record = made(tmp_path, load_study("probe"))
    assert record.points == made(tmp_path, study()).points and record.axes == {"batch": (8, 16)}


WRONG: dict[str, tuple[Any, str]] = {
    "no Study": (max, "it is a builtin_function_or_method, not a Study"),
    "another name": (study(name="evil"), "it is registered as 'probe', but calls itself 'evil'"),
    "no repeats": (study(repeats=0), "repeats must be at least 1, but is 0"),
    "no title": (study(title=None), "title, description and documents must be strings"),
    "no axes": (study(axes=None), "axes must be a tuple of Axis"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_study_that_is_wrong_is_refused_when_it_is_loaded(plug: Plug, case: str) -> None:
    found, said = WRONG[case]
    plug(found)
    with pytest.raises(
        StudyError, match=rf"^The study 'probe' of plugged_study:STUDY cannot be used: {said}"
    ) as caught:
        load_study("probe")
    assert caught.value.exit_code == 2


def test_a_name_that_is_no_folder_is_refused(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    plug(study(name="../../../evil"))
    monkeypatch.setattr(STUDIES, "_all", {"../../../evil": "plugged_study:STUDY"})
    with pytest.raises(StudyError, match="its name may have letters"):
        load_study("../../../evil")


@pytest.mark.parametrize("name", [":", ".:x", "os:system", "plugged_study:STUDY"])
def test_a_study_that_is_not_registered_has_no_name_by_which_it_could_be_found_again(plug: Plug, name: str) -> None:
    plug(study())
    with pytest.raises(UnknownNameError, match=rf"^There is no study '{name}'"):
        load_study(name)


CALLS: dict[str, Callable[[Any], object]] = {
    "points": lambda loaded: loaded.points(None),
    "analyse": lambda loaded: loaded.analyse(Outcomes(())),
    "figures": lambda loaded: loaded.figures(None),
    "refine": lambda loaded: loaded.refine(Outcomes(())),
}


@pytest.mark.parametrize("step", CALLS)
def test_a_function_of_a_study_that_fails_or_gives_something_else_is_named(plug: Plug, step: str) -> None:
    plug(replace(study(), **{step: failing}))
    with pytest.raises(
        StudyError, match=rf"^The study probe failed in {step}\(\): KeyError: 'threads'\. Runs are kept"
    ):
        CALLS[step](load_study("probe"))
    for wrong in (None, ["x"]):
        plug(replace(study(), **{step: lambda *arguments, wrong=wrong: wrong}))
        with pytest.raises(StudyError, match=rf"^The study probe must give a .* in {step}\(\), but gave "):
            CALLS[step](load_study("probe"))


def test_an_axis_that_fails_is_named(plug: Plug, tmp_path: Path) -> None:
    plug(study(axes=(Axis("batch", "samples", failing, setting="train.batch_size"),), points=[]))
    with pytest.raises(StudyError, match=r"^The study probe failed in axis --batch: KeyError"):
        made(tmp_path, load_study("probe"))


def test_a_bad_study_is_listed_with_the_reason_and_costs_no_other(
    plug: Plug, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(study(axes=(Axis("batch", "samples", failing, kind=str, choices=failing),)))
    app(["study", "--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "schedules" in shown and "probe" in shown and "(cannot be used: The study probe failed in axis" in shown
    with pytest.raises(StudyError, match="The study probe failed in axis --batch"):
        app(["study", "probe", "--batch", "8", "x"], standalone_mode=False)
    _, whole = make_all(Asked(is_smallest=True), HERE, Places.of(tmp_path))
    assert whole.parts["probe"].startswith("cannot run: The study probe failed in axis --batch: KeyError")


def test_names_that_no_terminal_or_figure_can_show_are_refused() -> None:
    names = Axis("link", "links", lambda request: [], kind=str)
    with pytest.raises(ConfigError, match=r"^--link takes printable names, but got 'a\\x1b\[31m"):
        parse_values(names, "a\x1b[31m\x01\nx")
    with pytest.raises(ValueError, match="must be printable"):
        Point(at={"link": "a\x01"})
