"""Loads studies by name; a plug-in that is wrong, or fails when it is called, is named in one line."""

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from trainmark.report.drawing import Figure
from trainmark.spec.config import Setting
from trainmark.spec.errors import StudyError, TrainmarkError
from trainmark.spec.files import one_line
from trainmark.spec.registries import STUDIES
from trainmark.spec.table import Table
from trainmark.studies.point import Point
from trainmark.studies.record import FOLDER_NAME
from trainmark.studies.study import Axis, Study

Check = Callable[[Any], bool]
ADVICE = "Runs are kept; trainmark --debug shows where"


def load_study(name: str) -> Study:
    """Returns a registered study whose functions are checked as they are called; raises with what is wrong with it."""
    _ = STUDIES[name]  # "module:attribute" is no name: the study could not be found again
    found = STUDIES.load(name)
    if problem := _problem_of(found, name):
        raise StudyError(f"The study '{name}' of {STUDIES[name]} cannot be used: {problem}.")
    study: Study = found
    points, tables = ("a list of Points", _all_are(Point)), ("a Table", lambda table: isinstance(table, Table))
    return replace(
        study,
        axes=tuple(_guarded_axis(name, axis) for axis in study.axes),
        points=_guarded(name, "points()", study.points, *points),
        analyse=_guarded(name, "analyse()", study.analyse, *tables),
        figures=_guarded(name, "figures()", study.figures, "a list of Figures", _all_are(Figure)),
        refine=_guarded(name, "refine()", study.refine, *points),
    )


def _problem_of(found: Any, name: str) -> str | None:
    """Returns what is wrong with the description of a study, or None."""
    if not isinstance(found, Study):
        return f"it is a {type(found).__name__}, not a Study (docs/extending.md)"
    if found.name != name:  # its folders name the study that resume and show load
        return f"it is registered as '{name}', but calls itself {found.name!r}"
    if not FOLDER_NAME.fullmatch(name):
        return "its name may have letters, digits, '.', '_' and '-' alone"
    if not all(isinstance(text, str) for text in (found.title, found.description, found.documents)):
        return "title, description and documents must be strings"
    if not _all_are(Axis)(found.axes):
        return "axes must be a tuple of Axis"
    if not isinstance(found.repeats, int) or found.repeats < 1:
        return f"repeats must be at least 1, but is {found.repeats!r}"
    return None


def _all_are(kind: Any) -> Check:
    def check(found: Any) -> bool:
        is_list = isinstance(found, Sequence) and not isinstance(found, str)
        return is_list and all(isinstance(each, kind) for each in found)

    return check


def _guarded_axis(name: str, axis: Axis) -> Axis:
    values = "a list of strings, numbers, true and false", _all_are(Setting)
    names = "a list of names", lambda found: all(isinstance(each, str) for each in found)
    step = f"axis --{axis.name}"
    return axis._replace(
        default=_guarded(name, step, axis.default, *values),
        smallest=axis.smallest and _guarded(name, step, axis.smallest, *values),
        choices=axis.choices and _guarded(name, step, axis.choices, *names),
    )


def _guarded(name: str, step: str, call: Callable[..., Any], expected: str, is_right: Check) -> Callable[..., Any]:
    """Returns the function of a study, with a one-line error if it fails or returns something else."""

    def guarded(*arguments: Any) -> Any:
        try:
            found = call(*arguments)
        except TrainmarkError:
            raise
        except Exception as error:
            raise StudyError(f"The study {name} failed in {step}: {one_line(error)}. {ADVICE}.") from error
        if not is_right(found):
            got = reprlib.repr(found)
            raise StudyError(f"The study {name} must give {expected} in {step}, but gave {got}. {ADVICE}.")
        return found

    return guarded
