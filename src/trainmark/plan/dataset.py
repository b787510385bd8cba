"""Finds a stored dataset by its own or its workload's name, with settings from the command line."""

from typing import Any

from trainmark.data.facts import differences, facts_of
from trainmark.plan.explain import COMMAND_LINE, Source
from trainmark.plan.resolve import parse_setting, validated
from trainmark.spec.errors import ConfigError, DataError, UnknownNameError
from trainmark.spec.registries import DATASETS, WORKLOADS
from trainmark.spec.registry import did_you_mean
from trainmark.workloads.find import find_size


def dataset_named(name: str, size: str) -> str:
    """Returns the dataset of a workload, or `name` itself if it is a dataset."""
    if name in WORKLOADS:
        return find_size(name, size).dataset
    if name not in DATASETS:
        known = sorted({*WORKLOADS, *DATASETS})
        raise UnknownNameError(
            f"There is no workload or dataset '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}."
        )
    return name


def find_stored_dataset(name: str, size: str, settings: list[str]) -> Any:
    """Returns the dataset with these settings; raises unless it is stored on disk (has `make` and `check`)."""
    dataset = dataset_named(name, size)
    values = dict(find_size(name, size).data_settings) if name in WORKLOADS else {}
    kind = DATASETS.load(dataset)
    if not hasattr(kind, "make"):
        stored = [each for each in DATASETS if hasattr(DATASETS.load(each), "make")]
        raise ConfigError(
            f"The dataset '{dataset}' is generated in memory and not stored on disk. Choose one of {', '.join(stored)}."
        )
    chosen = [parse_setting(text.removeprefix("data.")) for text in settings]
    for choice in chosen:
        values |= choice.values
    return kind(validated(kind.Settings, values, [Source(COMMAND_LINE, {"data": values})], ("data",)))


def check_can_skip(name: str, dataset: Any) -> None:
    """Raises unless samples of the dataset can be left out (data.skip)."""
    if "skip" not in type(dataset).Settings.model_fields:
        able = [each for each in DATASETS if "skip" in DATASETS.load(each).Settings.model_fields]
        raise ConfigError(
            f"Samples of {name} cannot be left out: only {', '.join(able)} have data.skip. Remove --skip-list."
        )


def note_of_size(name: str, size: str, dataset: Any) -> str | None:
    """Returns a note if the data differ from those of the workload's size, which is not an error; else None."""
    if name not in WORKLOADS:
        return None
    found = find_size(name, size)
    try:
        unlike = differences(found, found.dataset, facts_of(dataset))
    except DataError:  # too damaged to compare; the check reports why
        return None
    return f"These are not the data of {name} in size {size}: {'; '.join(unlike)}." if unlike else None
