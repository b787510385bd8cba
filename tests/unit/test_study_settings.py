"""What --set may change of a study: the length of its runs and whatever its points leave open."""

from pathlib import Path

import pytest

from tests.unit.test_estimate import TWO_CORES
from trainmark.collect.statistics import FEWEST_STEPS
from trainmark.plan.resolve import parse_setting
from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.registries import STUDIES
from trainmark.spec.run_folder import Places
from trainmark.studies.axes import parse_values
from trainmark.studies.make import Asked, make_study
from trainmark.studies.record import StudyRecord
from trainmark.studies.study import flat, nested


def made(folder: Path, name: str, *settings: str, **axes: tuple[int | str, ...]) -> StudyRecord:
    asked = Asked([parse_setting(text) for text in settings], axes)
    return make_study(STUDIES.load(name), asked, TWO_CORES, Places.of(folder))


@pytest.mark.parametrize(
    ("setting", "length"),
    [("train.minutes=10", {"minutes": 10}), ("train.epochs=2", {"epochs": 2}), ("train.steps=7", {"steps": 7})],
)
def test_a_length_that_the_user_chooses_replaces_the_studys(
    setting: str, length: dict[str, int], tmp_path: Path
) -> None:
    # The study's own is 40 steps.
    found = made(tmp_path, "threads", setting).base["train"]
    assert {name: found[name] for name in ("epochs", "steps", "minutes") if name in found} == length


@pytest.mark.parametrize("name", ["threads", "optimisations"])
def test_the_smallest_runs_of_studies_of_speed_are_long_enough_to_settle(name: str) -> None:
    steps = STUDIES.load(name).settings["smallest"]["train.steps"]
    assert steps >= FEWEST_STEPS


def test_a_size_that_a_study_does_not_know_is_as_long_as_full(tmp_path: Path) -> None:
    found = made(tmp_path, "threads", "size=cifar10").base["train"]
    assert {name: found[name] for name in ("epochs", "steps", "minutes") if name in found} == {"minutes": 10}


@pytest.mark.parametrize(
    ("name", "setting", "error"),
    [
        ("threads", "ensemble.members=4", "The study threads sets ensemble.members to 1 itself: --set"),
        ("variants", "train.torch.compiler=torchscript", "The study variants sets train.torch.compiler to none itself"),
        ("hybrid", "train.reference_batch_size=3", "The study hybrid sets train.reference_batch_size to "),
        ("threads", "seed=4", r"seed differs from round to round\. Choose the first with --seed 4\."),
    ],
)
def test_a_setting_that_would_change_nothing_is_refused(name: str, setting: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=error):
        made(tmp_path, name, setting)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("threads", "ensemble.members=1"),  # as the study has it
        ("utilisation", "ensemble.workers=2"),  # its points are made of it
        ("bagging-or-data-parallel", "ensemble.workers=2"),
        ("large-batch", "train.batch_size=64"),
        ("threads", "model=resnet18"),
    ],
)
def test_a_setting_that_the_points_leave_open_or_are_made_of_is_taken(name: str, setting: str, tmp_path: Path) -> None:
    assert made(tmp_path, name, setting).runs


def test_an_unknown_name_is_an_error_and_no_gap(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="There is no precision 'fp8'"):
        made(tmp_path, "optimisations", precision=("fp32", "fp8"))


def test_nested_and_flat_settings_are_inverse() -> None:
    settings = {"seed": 3, "train.epochs": 2, "train.torch.compiler": "none"}
    tables = {"seed": 3, "train": {"epochs": 2, "torch": {"compiler": "none"}}}
    assert nested(settings) == tables and flat(tables) == settings


@pytest.mark.parametrize(
    ("name", "axis", "error"),
    [
        ("hybrid", "mode", "--mode has no 'rank'. Did you mean 'ranks'? Choose from: ranks, members."),
        ("hybrid", "batch-rule", "--batch-rule has no 'rank'. Choose from: fixed, scaled."),
        ("bagging-or-data-parallel", "method", "--method has no 'rank'. Choose from: bagging, data-parallel."),
        ("nodes", "data", "--data has no 'rank'. Choose from: synthetic, real."),
        (
            "variants",
            "variant",
            "--variant has no 'rank'. Choose from: eager, channels-last, onednn, torchscript, inductor, no-onednn.",
        ),
        (
            "large-batch",
            "rule",
            "--rule has no 'rank'. Choose from: linear, square-root, lars, lamb, collapsed, cyclic.",
        ),
    ],
)
def test_a_value_that_an_axis_does_not_have_is_refused_with_those_it_has(name: str, axis: str, error: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_values(STUDIES.load(name).axis(axis), "rank")
    assert str(refused.value) == error
