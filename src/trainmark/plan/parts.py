"""Checks that model, dataset and quality fit the workload, from their metadata: torch is not loaded."""

from collections.abc import Iterator
from typing import Any

from trainmark.data.facts import declared_facts
from trainmark.plan.explain import Source, source_of
from trainmark.spec.config import RunChoices
from trainmark.spec.errors import ConfigError
from trainmark.spec.length import length_setting
from trainmark.spec.model_card import ModelCard
from trainmark.spec.registries import DATASETS, MODELS, QUALITIES, TASKS
from trainmark.spec.registry import did_you_mean
from trainmark.spec.status import STEPS_FOR_SPEED
from trainmark.spec.units import show_shape
from trainmark.spec.workload import WorkloadSize
from trainmark.workloads.find import find_card


def check_model_settings(config: RunChoices, sources: list[Source]) -> None:
    """Raises on settings that the model does not have or values it does not accept, naming their source."""
    card = find_card(config.model)
    for key, value in config.model_settings.items():
        where = source_of(("model_settings", key), sources)
        if key not in card.settings:
            hint = did_you_mean(key, list(card.settings)) or f" Known: {', '.join(card.settings) or 'none'}."
            raise ConfigError(f"{where}: the model '{config.model}' has no setting '{key}'.{hint}")
        for needed in _wrong_value(card, key, value):
            raise ConfigError(
                f"{where}: 'model_settings.{key}' is wrong: {config.model} needs {needed}, but got {value!r}. "
                "Change it and try again."
            )


def _wrong_value(card: ModelCard, key: str, value: Any) -> Iterator[str]:
    """Yields what the setting accepts if the value is invalid: listed values, or the type of its default."""
    default, allowed = card.settings[key], card.allowed.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if allowed is not None:
        if value not in allowed:
            yield f"one of {', '.join(map(str, allowed))}"
    elif isinstance(default, bool) or not isinstance(default, int | float):
        return
    elif isinstance(default, int) and default >= 1 and not (is_number and isinstance(value, int) and value >= 1):
        yield "a whole number of at least 1"
    elif not is_number:
        yield "a number"


def check_task(config: RunChoices, size: WorkloadSize) -> None:
    """Raises unless model, dataset and quality match the workload's task, and data.path is set for real data."""
    for registry, name in ((MODELS, config.model), (DATASETS, config.dataset), (QUALITIES, config.quality)):
        task = getattr(registry.load(name), "task", "classification")
        if size.task in TASKS and task not in (size.task, "any"):  # a plug-in's own task cannot be checked
            raise ConfigError(
                f"The {registry.kind} '{name}' is made for {task}, but {config.workload} is {size.task}. "
                f"Choose another {registry.kind}, or a workload of {task}: trainmark list workloads."
            )
    if size.real_data and config.dataset == size.dataset and "path" not in config.data:
        few = STEPS_FOR_SPEED * config.train.batch_size
        once = " --set train.epochs=1" if length_setting(config.train) == "train.epochs" else ""
        once += " --set train.augmentation=none" if config.train.augmentation != "none" else ""
        raise ConfigError(
            f"{config.workload} in size {config.size} trains on real data, but data.path is not set. Choose "
            f"--set data.path=DIR (docs/workloads/{config.workload}.md says how to get them), --size tiny, or, to "
            f"measure speed alone, --set dataset=synthetic --set data.num_train={few}{once}."
        )


def check_quality(config: RunChoices) -> None:
    """Raises if the model predicts too few classes for its quality to tell good predictions from bad ones."""
    fewest = getattr(QUALITIES.load(config.quality), "fewest_classes", 0)
    classes = find_card(config.model).value_of("num_classes", config.model_settings)
    if isinstance(classes, int) and classes < fewest:
        raise ConfigError(
            f"{config.quality} needs at least {fewest} classes, but {config.model} has {classes}: any prediction would "
            "be right. Choose --set quality=top1."
        )


def check_target(config: RunChoices, sources: list[Source]) -> None:
    """Raises if the target quality is out of range, such as 80 where quality is a fraction."""
    _, best = getattr(QUALITIES.load(config.quality), "RANGE", (None, None))
    target = config.evaluate.target_quality
    if best is None or target <= best:
        return
    where = source_of(("evaluate", "target_quality"), sources)
    is_percent = best == 1 and 2 <= target <= 100
    raise ConfigError(
        f"{where}: 'evaluate.target_quality' is wrong: {config.quality} is at most {best:g}, but got {target:g}; "
        f"{f'write {target / 100:g} for {target:g} %' if is_percent else 'choose a reachable one'}."
    )


def with_shape(config: RunChoices, size: WorkloadSize) -> dict[str, Any]:
    """Returns the dataset's settings; a synthetic one takes its unset shape from the workload or the model."""
    if not getattr(DATASETS.load(config.dataset), "is_synthetic", False):
        return dict(config.data)
    card = find_card(config.model)
    own = declared_facts(size) if config.model == size.model else None
    shape = (own and own.sample_shape) or card.input_shape
    if len(shape) != 3:
        raise ConfigError(
            f"The dataset '{config.dataset}' generates images, but the input of {config.model} is {show_shape(shape)}. "
            "Choose another dataset, or another model."
        )
    few = {"num_train": own.num_train} if own and not size.real_data else {}
    classes = card.value_of("num_classes", config.model_settings)
    # Labels match the model's head; channels are those of the shape unless set for the model.
    given: dict[str, Any] = {"num_classes": classes} if isinstance(classes, int) else {}
    given |= {key: value for key, value in config.model_settings.items() if key == "channels"}
    return dict(zip(("channels", "height", "width"), shape, strict=True)) | few | given | config.data


def with_classes(config: RunChoices) -> dict[str, Any]:
    """Returns the model's settings with `num_classes` of the dataset, if known from its settings."""
    classes = known_classes(config)
    if classes is None or "num_classes" not in find_card(config.model).settings:
        return dict(config.model_settings)
    return {**config.model_settings, "num_classes": classes}


def known_classes(config: RunChoices) -> int | None:
    """Returns the number of classes according to the dataset's settings; None if it depends on files."""
    if "path" in config.data:
        return None
    classes = config.data.get("num_classes", getattr(DATASETS.load(config.dataset), "num_classes", None))
    return classes if isinstance(classes, int) else None
