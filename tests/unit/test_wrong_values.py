"""Whatever is wrong with a setting, a site or a stored record is said in our own words, on one line."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from trainmark.plan.explain import COMMAND_LINE, Source, all_keys
from trainmark.plan.resolve import parse_setting, resolve_config, validated
from trainmark.spec.config import RunChoices
from trainmark.spec.errors import ConfigError, RunNotFoundError, UnknownNameError, escape_control_characters
from trainmark.spec.registries import DATASETS
from trainmark.spec.registry import did_you_mean
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.stored_run import read_stored
from trainmark.spec.validation_errors import MESSAGES
from trainmark.store.runs import read_result

WRONG: list[Any] = ["a text", "3", 3.5, True, 7, -1, -0.5, 10**12, float("nan"), float("inf"), [], ["x"], {}, {"x": 1}]
LIBRARY = ("Input should", "Field required", "Extra inputs", "valid ", "validation error", "an invalid value")

SITE: dict[str, Any] = {"name": "s", "groups": [{"slots": [{"cores": "0"}]}], "slurm": {}}
SECTIONS: dict[str, tuple[type[BaseModel], list[str | int]]] = {
    "site": (Site, []),
    "group": (NodeGroup, ["groups", 0]),
    "slot": (Slot, ["groups", 0, "slots", 0]),
    "slurm": (SlurmSite, ["slurm"]),
}


def refusals(model: type[BaseModel], good: dict[str, Any], section: list[str | int], keys: list[str]) -> Iterator[str]:
    """What is said when each of the keys, within a section, gets each of the wrong values, or is left out."""
    for key in keys:
        for value in [*WRONG, None]:
            values = deepcopy(good)
            place: Any = values
            *parents, last = [*section, *key.split(".")]
            for part in parents:
                place = place[part]
            place[last] = value
            if value is None:
                del place[last]
            try:
                validated(model, values, [Source("my.toml", values)], ())
            except ConfigError as error:
                yield str(error)


def check_words(said: list[str]) -> None:
    assert said
    for message in said:
        assert not [words for words in LIBRARY if words in message], message
        assert message.isprintable() and message.startswith("my.toml: "), message


def test_every_setting_with_every_wrong_value_is_refused_in_our_own_words() -> None:
    good = resolve_config([]).model_dump(exclude_none=True)
    keys = [*all_keys(RunChoices), "nonsense", "train.nonsense"]
    check_words(list(refusals(RunChoices, good, [], [*keys, "train", "launch"])))


@pytest.mark.parametrize("section", list(SECTIONS))
def test_every_key_of_a_site_with_every_wrong_value_is_refused_in_our_own_words(section: str) -> None:
    record, path = SECTIONS[section]
    check_words(list(refusals(Site, SITE, path, [*record.model_fields, "nonsense"])))


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_setting_of_a_dataset_with_every_wrong_value_is_refused_in_our_own_words(name: str) -> None:
    settings = DATASETS.load(name).Settings
    good = settings().model_dump(exclude_none=True)
    check_words(list(refusals(settings, good | dict.fromkeys(settings.model_fields, 1) | good, [], list(good))))


def test_a_flag_is_named_as_it_was_written() -> None:
    def said(**ensemble: Any) -> str:
        with pytest.raises(ConfigError) as error:
            resolve_config([Source(COMMAND_LINE, {"ensemble": ensemble})])
        return str(error.value)

    assert said(members=0) == "--members must be at least 1, but got 0."
    assert said(system_scale=2_000_000) == "--system-scale must be at most 1,000,000, but got 2000000."


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("train.momentum=1", "'train.momentum' is wrong: it must be less than 1, but got 1."),
        ("train.learning_rate=0", "'train.learning_rate' is wrong: it must be more than 0, but got 0."),
        ("train.learning_rate=inf", "it must be a finite number, but got inf."),
        (
            "train.decay_at=30,20",
            "'train.decay_at' is wrong: must list increasing epochs above 0, such as 30,60,80, but got '30,20'.",
        ),
        ("train.decay_at=[0, 30]", "must list increasing epochs above 0, such as 30,60,80, but got [0, 30]."),
        ("train.decay_at=30,30", "must list increasing epochs above 0, such as 30,60,80, but got '30,30'."),
        ("train.decay_at=30,later", "must list epochs, such as 30,60,80, but got '30,later'."),
        ("train.decay_at=[30, inf]", "must list epochs, such as 30,60,80, but got [30, inf]."),
        ("train.decay_at=[true]", "must list epochs, such as 30,60,80, but got [True]."),
        ("train.decay_at=[]", "must list epochs, such as 30,60,80, but got []."),
        ("train.batch_norm_momentum=0", "it must be more than 0, but got 0."),
        ("train.batch_norm_momentum=1.5", "it must be at most 1, but got 1.5."),
        ("measure.ceiling=yes", "it must be true or false, but got 'yes'."),
        ("launch.stage=locl", "it must be 'none' or 'local', but got 'locl'."),
        ("epochs=2", "there is no setting 'epochs'. Did you mean 'train.epochs'?"),
        ("batch_size=2", "Did you mean 'train.batch_size' or 'evaluate.batch_size'?"),
    ],
)
def test_a_wrong_setting_says_what_it_must_be(setting: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_config([parse_setting(setting)])
    assert words in str(error.value)


def test_a_name_without_its_version_means_the_newest() -> None:
    known = ["resnet-tiny", "resnet50-v1", "resnet50-v1.5", "resnext50-32x4d"]
    assert did_you_mean("resnet50", known) == " Did you mean 'resnet50-v1.5'?"
    assert did_you_mean("resnet50-v2", known) == " Did you mean 'resnet50-v1'?"


def test_a_line_break_in_a_name_does_not_break_the_line() -> None:
    with pytest.raises(UnknownNameError) as error:
        resolve_config([Source("my.toml", {"model": "res\nnet\x1b[2J"})])
    shown = escape_control_characters(str(error.value))
    assert shown.isprintable()
    assert "There is no model 'res\\nnet\\x1b[2J'" in shown


def test_records_that_cannot_be_read_are_named_in_our_own_words(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.result.write_text('{"run_id": 3}')
    with pytest.raises(RunNotFoundError) as result:
        read_result(folder)
    config = resolve_config([]).model_dump(exclude_none=True)
    folder.config.write_text(f"seed = -1\nworkload = '{config['workload']}'\n")
    with pytest.raises(RunNotFoundError) as stored:
        read_stored(folder)
    for message in (str(result.value), str(stored.value)):
        assert not [words for words in LIBRARY if words in message], message


def test_no_kind_of_error_has_words_of_the_library() -> None:
    assert not [words for words in MESSAGES.values() if "Input" in words]
