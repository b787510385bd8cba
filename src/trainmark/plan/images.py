"""Whether a dataset's images and a model fit each other: their changes, sizes, channels and classes."""

from collections.abc import Iterator
from typing import Any

from trainmark.plan.parts import known_classes
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.registries import DATASETS
from trainmark.spec.units import show_shape
from trainmark.spec.workload import DataFacts
from trainmark.workloads.find import find_card


def image_refusals(config: RunConfig) -> Iterator[str]:
    """Why the model cannot be trained on the dataset, as far as settings tell: files are not looked at."""
    kind = DATASETS.load(config.dataset)
    dataset = kind(kind.Settings.model_validate(config.data))
    shape = getattr(dataset, "sample_shape", None)
    yield from _augmentation(config)
    if shape is not None and len(shape) == 3:
        yield from _too_small(config, shape, kind.Settings.model_fields)
        yield from _other_channels(config, shape[0])
    yield from _too_many_classes(config, known_classes(config))


def check_found(config: RunConfig, found: DataFacts) -> None:
    """Raises if the model cannot be trained on data that are there: by what their files tell, as far as they do."""
    settings = DATASETS.load(config.dataset).Settings.model_fields
    shape = found.sample_shape
    images = shape if shape is not None and len(shape) == 3 else None
    for refusal in (
        *(_too_small(config, images, settings) if images else ()),
        *(_other_channels(config, images[0]) if images else ()),
        *_too_many_classes(config, found.num_classes),
    ):
        raise PlanError(refusal)


def _augmentation(config: RunConfig) -> Iterator[str]:
    known, chosen = getattr(DATASETS.load(config.dataset), "augmentations", None), config.train.augmentation
    if known is not None and chosen not in known:
        yield (
            f"The dataset {config.dataset} cannot be changed by {chosen}. Choose --set train.augmentation={known[-1]}."
        )


def _too_small(config: RunConfig, shape: tuple[int, ...], settings: Any) -> Iterator[str]:
    card = find_card(config.model)
    if not card.is_too_small(shape):
        return
    smallest = card.smallest_side
    sides = {"height": shape[1], "width": shape[2]}
    short = ["image_size"] if "image_size" in settings else [name for name, side in sides.items() if side < smallest]
    choices = [f"--set data.{name}={smallest}" for name in short if name in settings]
    yield (
        f"{config.model} needs images of at least {smallest} × {smallest}, but those of {config.dataset} are "
        f"{show_shape(shape[1:])}. Choose {' '.join(choices)}{', or ' if choices else ''}another model."
    )


def _other_channels(config: RunConfig, channels: int) -> Iterator[str]:
    taken = config.model_settings.get("channels", find_card(config.model).input_shape[0])
    if isinstance(taken, int) and taken != channels:
        yield _mismatch(config, "channels", channels, taken)


def _too_many_classes(config: RunConfig, classes: Any) -> Iterator[str]:
    most = find_card(config.model).value_of("num_classes", config.model_settings)
    if isinstance(most, int) and isinstance(classes, int) and classes > most:
        yield _mismatch(config, "num_classes", classes, most)


def _mismatch(config: RunConfig, key: str, there: int, taken: int) -> str:
    if key in config.data:
        return f"{config.model} is for {taken} {key}, but data.{key} is {there}. Choose --set data.{key}={taken}."
    return (
        f"{config.model} is for {taken} {key}, but {config.dataset} has {there}. "
        f"Choose --set model_settings.{key}={there}, or another dataset."
    )
