"""Whether data match what a workload's size declares: counts, classes and shape."""

from collections.abc import Iterator
from typing import Any

from trainmark.spec.config import RunChoices
from trainmark.spec.errors import DataError
from trainmark.spec.registries import DATASETS
from trainmark.spec.units import counted, show_shape
from trainmark.spec.workload import DataFacts, WorkloadSize


def facts_of(dataset: Any) -> DataFacts:
    """Counts, classes and shape of a dataset, from its settings and files; reads no sample."""
    shape = getattr(dataset, "sample_shape", None)
    settings = getattr(dataset, "settings", None)
    if shape is None and getattr(settings, "path", None) is not None:  # only the files know
        shape = dataset.load("train").sample_shape
    return DataFacts(
        num_train=dataset.num_samples("train"),
        num_eval=dataset.num_samples("eval"),
        num_classes=getattr(dataset, "num_classes", None),
        sample_shape=shape,
        is_simulated=getattr(dataset, "is_simulated", False),
        num_skipped=getattr(dataset, "num_skipped", 0),  # after the samples are counted
    )


def varies_in_shape(config: RunChoices) -> bool:
    """Whether the images of the run's dataset differ in height and width, according to its settings."""
    kind = DATASETS.load(config.dataset)
    return getattr(kind(kind.Settings.model_validate(config.data)), "variable_shape", False)


def num_stored(dataset: Any) -> int | None:
    """The number of samples in all files of a dataset; None if they are too damaged to count."""
    try:
        if hasattr(dataset, "num_stored"):
            return int(dataset.num_stored())
        return int(dataset.num_samples("train") + dataset.num_samples("eval"))
    except DataError:
        return None


def declared_facts(size: WorkloadSize) -> DataFacts:
    """The facts of a workload's default data: as declared for real data, otherwise from its dataset's settings."""
    if size.real_data is not None:
        return size.real_data
    kind = DATASETS.load(size.dataset)
    return facts_of(kind(kind.Settings.model_validate(dict(size.data_settings))))


def differences(size: WorkloadSize, dataset: str, found: DataFacts) -> list[str]:
    """How the data differ from the real data of the size; empty if it declares none."""
    return [] if size.real_data is None else list(_differences(size.real_data, size.dataset, dataset, found))


def _differences(stated: DataFacts, real: str, dataset: str, found: DataFacts) -> Iterator[str]:
    if dataset != real:
        yield f"{dataset}, not {real}"
    if found.is_simulated:
        yield "simulated by trainmark"
    for name, what in (("num_classes", "class"), ("num_train", "training sample"), ("num_eval", "held-out sample")):
        expected, actual = getattr(stated, name), getattr(found, name)
        if None not in (expected, actual) and expected != actual:
            yield f"{counted(actual, what)}, not {expected:,}"
    if stated.sample_shape and found.sample_shape and tuple(found.sample_shape) != stated.sample_shape:
        yield f"images of {show_shape(found.sample_shape)}, not {show_shape(stated.sample_shape)}"
