"""Checks that a run's data exist or can be generated, fit the model, suffice, and have enough storage."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.data.bootstrap import check_draws
from trainmark.data.facts import facts_of, varies_in_shape
from trainmark.data.folders import planned_dataset
from trainmark.machine.storage import check_space
from trainmark.plan.parts import known_classes
from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.engine_offer import EngineOffer, find_engine
from trainmark.spec.errors import ConfigError, PlanError
from trainmark.spec.layout import SPLITTING
from trainmark.spec.plan import Plan
from trainmark.spec.registries import DATASETS, ENGINES, MODELS
from trainmark.spec.run_folder import Places
from trainmark.spec.site import Site
from trainmark.spec.units import show_shape
from trainmark.spec.workload import DataFacts
from trainmark.workloads.find import find_card

SPACE_FOR_RECORDS = 4 * 2**20
MAX_NAMED = 5
SPACE_FOR_MEMBER = 16 * 2**10  # of records, beside its bootstrap


def check_data(config: RunConfig, plan: Plan, places: Places) -> DataFacts:
    """Returns facts about the data; raises if the run cannot start. Reads no sample and writes nothing."""
    existing = next(path for path in (places.data, *places.data.resolve().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"{existing} is not a folder. Choose another folder with --data-dir.")
    facts = facts_of(planned_dataset(config, places.data))
    check_data_facts(config, facts)
    num_samples = facts.num_train or 0
    check_draws(config, num_samples, plan.members, plan.workers_per_member)
    check_space(places.runs, needed_bytes=plan.members * (num_samples + SPACE_FOR_MEMBER) + SPACE_FOR_RECORDS)
    return facts


def image_refusals(config: RunConfig) -> Iterator[str]:
    """Yields why the model cannot be trained on the dataset according to settings; at most a few headers are read."""
    kind = DATASETS.load(config.dataset)
    dataset = kind(kind.Settings.model_validate(config.data))
    shape = getattr(dataset, "sample_shape", None)
    yield from _augmentation(config, getattr(dataset, "augmentations", None))
    if shape is not None and len(shape) == 3:
        yield from _too_small(config, shape, kind.Settings.model_fields)
        yield from _other_channels(config, shape[0])
    yield from _too_many_classes(config, known_classes(config))


SHAPE_SETTINGS = ("batching", "batching_window", "batch_pixels", "mask_padding")  # of images of unlike shape


def shape_refusals(config: RunConfig, offer: EngineOffer) -> Iterator[str]:
    """Yields why images of unlike shape cannot be trained so, or settings for them that have no effect."""
    train, card = config.train, find_card(config.model)
    changed = [key for key in SHAPE_SETTINGS if getattr(train, key) != TrainConfig.model_fields[key].default]
    if not varies_in_shape(config):
        for key in changed:
            yield f"The images of {config.dataset} are all of one shape, so train.{key} has no effect. Remove it."
        return
    if not offer.variable_shapes:
        others = " or ".join(name for name in ENGINES if find_engine(name).variable_shapes)
        yield (
            f"The engine {train.engine} trains images of one shape only. "
            f"Choose --set train.engine={others}, or another dataset."
        )
    if not card.any_shape:
        able = [name for name in MODELS if find_card(name).any_shape and find_card(name).task == card.task]
        nearest = max(able, key=lambda name: SequenceMatcher(None, name, config.model).ratio(), default=None)
        yield (
            f"{config.model} takes images of one shape, but those of {config.dataset} differ. "
            f"Choose {f'--set model={nearest}' if nearest else 'another model'}, or another dataset."
        )
    if train.parallel in SPLITTING and train.parallel != "model":
        yield (
            f"train.parallel={train.parallel} passes tensors of one shape between its stages, but the images of "
            f"{config.dataset} differ. Choose --set train.parallel=model, data or sharded."
        )
    if train.parallel == "model" and train.mask_padding:
        yield (
            "Padding is masked in whole models only, but train.parallel=model splits them. "
            "Choose --set train.mask_padding=false, or --set train.parallel=data."
        )
    if train.batch_pixels is not None and train.batching != "pixels":
        yield (
            f"train.batch_pixels limits the batches of train.batching=pixels, but it is {train.batching}. "
            "Choose --set train.batching=pixels, or remove train.batch_pixels."
        )


def check_data_facts(config: RunConfig, found: DataFacts) -> None:
    """Raises if the model cannot be trained on the data according to their files."""
    settings = DATASETS.load(config.dataset).Settings.model_fields
    shape = found.sample_shape
    images = shape if shape is not None and len(shape) == 3 else None
    for refusal in (
        *(_too_small(config, images, settings) if images else ()),
        *(_other_channels(config, images[0]) if images else ()),
        *_too_many_classes(config, found.num_classes),
    ):
        raise PlanError(refusal)


def check_features(config: RunConfig, shapes: NDArray[np.int64] | None, names: Sequence[str]) -> None:
    """Raises if images are so small that batch normalisation would see a single value: its variance is undefined."""
    card = find_card(config.model)
    most = card.one_feature_side if card.has_batch_norm and config.train.batch_norm == "worker" else 0
    small = [] if shapes is None else np.flatnonzero((shapes <= most).all(axis=1)).tolist()
    if shapes is None or not small:
        return
    named = [
        f"{names[index] if names else index} ({show_shape(shapes[index].tolist())})" for index in small[:MAX_NAMED]
    ]
    more = [f"and {len(small) - MAX_NAMED:,} more"] if len(small) > MAX_NAMED else []
    raise PlanError(
        f"{config.model} reduces images of up to {most} × {most} to one value per channel, of which batch "
        f"normalisation has no variance if one is alone in a pass: {', '.join([*named, *more])}. Leave them out with "
        f"data.skip (trainmark data check … --set smallest_side={most + 1} --skip-list FILE), or choose a larger "
        "data.side or another model."
    )


def _augmentation(config: RunConfig, known: Sequence[str] | None) -> Iterator[str]:
    chosen = config.train.augmentation
    if known is not None and chosen not in known:
        yield (
            f"The dataset {config.dataset} does not support the augmentation {chosen}. "
            f"Choose --set train.augmentation={known[-1]}."
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


def check_staging(config: RunConfig, plan: Plan, site: Site) -> None:
    """Raises if data are to be staged but the site has no local_storage."""
    if config.launch.stage == "none":
        return
    for node in dict.fromkeys(rank.node for job in plan.first_jobs for rank in job.ranks):
        if site.group_of(node).local_storage is None:
            raise PlanError(
                f"launch.stage=local copies data to node-local storage, but site '{site.name}' has no local_storage "
                f'for {node}. Set local_storage = "$TMPDIR", or another folder, for its group in the file for --site '
                "(trainmark machine --draft-site writes one), or choose --set launch.stage=none."
            )
