"""Whether model, dataset and quality fit the workload, by what they state of themselves: no torch is loaded to tell."""

from collections.abc import Iterator
from typing import Any

from trainmark.data.facts import declared_facts
from trainmark.plan.explain import Source, source_of
from trainmark.spec.config import RunChoices
from trainmark.spec.errors import ConfigError
from trainmark.spec.model_card import ModelCard
from trainmark.spec.registries import DATASETS, MODELS, QUALITIES, TASKS
from trainmark.spec.registry import closest
from trainmark.spec.status import STEPS_FOR_SPEED
from trainmark.spec.units import show_shape
from trainmark.spec.workload import WorkloadSize
from trainmark.workloads.find import find_card


def check_model_settings(config: RunChoices, sources: list[Source]) -> None:
    """Settings that the model does not have, or cannot take, are refused with where they came from."""
    card = find_card(config.model)
    for key, value in config.model_settings.items():
        where = source_of(("model_settings", key), sources)
        if key not in card.settings:
            hint = closest(key, list(card.settings)) or f" Known here: {', '.join(card.settings) or 'none'}."
            raise ConfigError(f"{where}: the model '{config.model}' has no setting '{key}'.{hint}")
        for needed in _wrong_value(card, key, value):
            raise ConfigError(
                f"{where}: 'model_settings.{key}' is wrong: {config.model} takes {needed}, but got {value!r}. "
                "Change it and try again."
            )


def _wrong_value(card: ModelCard, key: str, value: Any) -> Iterator[str]:
    """What the setting takes, where the value is none of it: those listed, or by its default a count or a number."""
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
    """Model, dataset and quality are fit for what the workload learns, and real data are where they were said to be."""
    for registry, name in ((MODELS, config.model), (DATASETS, config.dataset), (QUALITIES, config.quality)):
        task = getattr(registry.load(name), "task", "classification")
        if size.task in TASKS and task not in (size.task, "any"):  # of a plug-in's own task we know nothing
            raise ConfigError(
                f"The {registry.kind} '{name}' is made for {task}, but {config.workload} is {size.task}. "
                f"Choose another {registry.kind}, or a workload of {task}: trainmark list workloads."
            )
    if size.real_data and config.dataset == size.dataset and "path" not in config.data:
        few = STEPS_FOR_SPEED * config.train.batch_size
        raise ConfigError(
            f"{config.workload} in size {config.size} trains on real data, but data.path is not set. Choose "
            f"--set data.path=DIR (docs/workloads/{config.workload}.md says how to get them), --size tiny, or, to "
            f"measure speed alone, --set dataset=synthetic --set data.num_train={few} --set train.epochs=1."
        )


def check_target(config: RunChoices, sources: list[Source]) -> None:
    """The target is a quality that can be reached: 80 is none where qualities are shares."""
    _, best = getattr(QUALITIES.load(config.quality), "RANGE", (None, None))
    target = config.evaluate.target_quality
    if best is None or target <= best:
        return
    where = source_of(("evaluate", "target_quality"), sources)
    is_percent = best == 1 and 2 <= target <= 100
    raise ConfigError(
        f"{where}: 'evaluate.target_quality' is wrong: {config.quality} is at most {best:g}, but got {target:g}; "
        f"{f'write {target / 100:g} for {target:g} %' if is_percent else 'choose one that can be reached'}."
    )


def shaped(config: RunChoices, size: WorkloadSize) -> dict[str, Any]:
    """The dataset's settings; what a synthetic one leaves open is that of the data which the model was chosen for."""
    if not getattr(DATASETS.load(config.dataset), "is_synthetic", False):
        return dict(config.data)
    card = find_card(config.model)
    own = declared_facts(size) if config.model == size.model else None
    shape = (own and own.sample_shape) or card.input_shape
    if len(shape) != 3:
        raise ConfigError(
            f"The dataset '{config.dataset}' makes images, but {config.model} takes {show_shape(shape)} values. "
            "Choose another dataset, or another model."
        )
    few = {"num_train": own.num_train} if own and not size.real_data else {}
    classes = card.value_of("num_classes", config.model_settings)
    # Labels are those that the model's head distinguishes. Channels are the shape's, unless the model was given others.
    given: dict[str, Any] = {"num_classes": classes} if isinstance(classes, int) else {}
    given |= {key: value for key, value in config.model_settings.items() if key == "channels"}
    return dict(zip(("channels", "height", "width"), shape, strict=True)) | few | given | config.data


def with_classes(config: RunChoices) -> dict[str, Any]:
    """The model's settings, with a head for as many classes as the dataset has, where its settings tell that."""
    classes = known_classes(config)
    if classes is None or "num_classes" not in find_card(config.model).settings:
        return dict(config.model_settings)
    return {**config.model_settings, "num_classes": classes}


def known_classes(config: RunChoices) -> int | None:
    """How many classes the dataset has by its settings; None where only its files tell, or it has none."""
    if "path" in config.data:
        return None
    classes = config.data.get("num_classes", getattr(DATASETS.load(config.dataset), "num_classes", None))
    return classes if isinstance(classes, int) else None
