"""Merges the workload's recipe, a TOML file, flags and --set into RunChoices; later sources win."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainmark.plan.explain import Source, explain
from trainmark.plan.parts import check_model_settings, check_quality, check_target, check_task, with_classes, with_shape
from trainmark.spec.config import RunChoices, with_torch_section
from trainmark.spec.engine_offer import find_engine
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import (
    BOOTSTRAPS,
    COMMUNICATION,
    COMMUNICATION_PRECISIONS,
    DATASETS,
    LAUNCHERS,
    MODELS,
    OPTIMIZERS,
    PARALLEL,
    PRECISIONS,
    QUALITIES,
    SCHEDULES,
)
from trainmark.spec.site import Site
from trainmark.spec.workload import WorkloadSize
from trainmark.workloads.find import find_size

BaseModelT = TypeVar("BaseModelT", bound=BaseModel)

# Registries of engine parts, by the setting that selects one.
ENGINE_REGISTRIES = {
    "optimizer": OPTIMIZERS,
    "precision": PRECISIONS,
    "parallel": PARALLEL,
    "communication": COMMUNICATION,
    "communication_precision": COMMUNICATION_PRECISIONS,
}
DEFAULTS = {"workload": "image-classification", "size": "tiny"}


def read_config_file(path: Path) -> Source:
    """Reads settings from a TOML file."""
    return Source(str(path), _read_toml(path))


def read_site_file(path: Path) -> Site:
    """Reads a site from a TOML file."""
    values = _read_toml(path)
    try:
        return Site.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error.errors(), Site, [Source(str(path), values)])) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))  # also of a pipe: --config <(…)
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist. Give the path of a TOML file.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder, not a TOML file. Give the path of a file.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}. Correct the file and try again.") from None


def parse_setting(text: str) -> Source:
    """Parses `a.b=c`; c is a TOML value, or else a plain string."""
    key, equals, value = text.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set needs key=value, but got '{text}'. Example: --set train.epochs=3.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # no TOML; more digits or brackets than Python reads
        parsed = value
    for part in reversed(parts):
        parsed = {part: parsed}
    return Source(f"--set {key}", parsed)


def resolve_config(sources: list[Source]) -> RunChoices:
    """Merges all sources and checks every name and setting."""
    sources = [_with_current_names(source) for source in sources]
    user = merged_values(sources)
    named = DEFAULTS | {key: user[key] for key in DEFAULTS if key in user}
    if not all(isinstance(name, str) for name in named.values()):
        raise ConfigError(f"workload and size are names, but got {named['workload']!r} and {named['size']!r}.")
    size = find_size(named["workload"], named["size"])
    merged = _merge(_defaults_of(size, user) | named, user)
    config = validated(RunChoices, merged, sources, ())
    _check_names(config)
    check_model_settings(config, sources)
    settings = validated(DATASETS.load(config.dataset).Settings, with_shape(config, size), sources, ("data",))
    config = config.model_copy(update={"data": _with_absolute_paths(settings.model_dump(exclude_none=True))})
    if "num_classes" not in user.get("model_settings", {}):
        config = config.model_copy(update={"model_settings": with_classes(config)})
    check_task(config, size)
    check_quality(config)
    check_target(config, sources)
    return config


def merged_values(sources: Sequence[Source]) -> dict[str, Any]:
    """Returns the settings of all sources; later ones win."""
    merged: dict[str, Any] = {}
    for source in sources:
        merged = _merge(merged, source.values)
    return merged


def _with_current_names(source: Source) -> Source:
    """Renames old settings per source, so that a later source wins whichever name it uses."""
    if "train" not in source.values:
        return source
    try:
        return Source(source.name, {**source.values, "train": with_torch_section(source.values["train"])})
    except ValueError as error:
        raise ConfigError(f"{source.name}: {error}.") from None


def _defaults_of(size: WorkloadSize, user: dict[str, Any]) -> dict[str, Any]:
    """Returns the workload's choices; those tuned for its model or dataset only if it is not replaced."""
    same_model = user.get("model", size.model) == size.model
    recipe = with_torch_section(dict(size.recipe))
    engine = user.get("train", {}).get("engine", "torch") if isinstance(user.get("train"), dict) else "torch"
    if not same_model or engine != "torch":  # the fastest engine settings depend on the model
        recipe.pop("torch", None)
    same_dataset = user.get("dataset", size.dataset) == size.dataset
    return {
        "model": size.model,
        "model_settings": dict(size.model_settings) if same_model else {},
        "dataset": size.dataset,
        "data": dict(size.data_settings) if same_dataset else {},
        "quality": size.quality,
        "train": recipe,
        "evaluate": {"target_quality": size.target_quality, "exponent": size.exponent},
    }


def _check_names(config: RunChoices) -> None:
    """Raises on unknown names, before anything starts; a plug-in's "module:attribute" is not checked."""
    for registry, name in (
        (MODELS, config.model),
        (DATASETS, config.dataset),
        (BOOTSTRAPS, config.ensemble.bootstrap),
        (QUALITIES, config.quality),
        (SCHEDULES, config.train.schedule),
        (LAUNCHERS, config.launch.launcher),
    ):
        if ":" not in name:
            _ = registry[name]
    for key, offered in find_engine(config.train.engine).names().items():
        name = getattr(config.train, key)
        if name is not None and ":" not in name and name not in offered:
            _ = ENGINE_REGISTRIES[key][name]  # a part of another engine is rejected by the plan


def _with_absolute_paths(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the dataset's settings with absolute paths, valid in any working directory."""
    paths = {key: data[key] for key in ("path", "skip", "shape_cache") if key in data}
    return data | {key: str(Path(path).expanduser().resolve()) for key, path in paths.items()}


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def validated(
    model: type[BaseModelT], values: dict[str, Any], sources: list[Source], prefix: tuple[str, ...]
) -> BaseModelT:
    """Validates the values; raises a one-line error that names the invalid setting and its source."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error.errors(), model, sources, prefix)) from None
