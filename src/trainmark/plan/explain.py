"""Explains an invalid setting in one line: its source, its name, its value and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from trainmark.spec.registry import did_you_mean
from trainmark.spec.validation_errors import describe_error

MAX_SHOWN = 100
COMMAND_LINE = "the command line"  # as a source: the flags, not --set

FLAGS = {
    "size": "--size",
    "seed": "--seed",
    "ensemble.members": "--members",
    "ensemble.workers": "--workers",
    "ensemble.system_scale": "--system-scale",
    "launch.launcher": "--launcher",
}


@dataclass(frozen=True)
class Source:
    """Nested settings and the name of their source: a file or "the command line"."""

    name: str
    values: dict[str, Any]


def explain(
    errors: list[ErrorDetails], model: type[BaseModel], sources: list[Source], prefix: tuple[str, ...] = ()
) -> str:
    """Returns one line about the error that most likely causes the others."""
    # A misspelt key is often also reported as missing: the misspelling is more helpful.
    error = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    path, kind, what = error["loc"], error["type"], describe_error(error)
    key = ".".join([*prefix, *(str(part) for part in path)])
    source = source_of((*prefix, *path), sources)
    got = _shown(repr(error["input"]))
    if kind == "extra_forbidden":
        return f"{source}: there is no setting '{_shown(key)}'.{_hint(model, path)}"
    if not key:
        return f"{source}: {what}. Correct it and try again."
    if kind == "missing":
        return f"{source}: the setting '{key}' is missing. Add it."
    if kind in ("model_type", "dict_type"):
        return f"{source}: '{key}' is a section with settings, but got {got}."
    if kind == "tuple_type":
        return f"{source}: '{key}' is a list, but got {got}. {_how_to_list(model, path)}"
    if source == COMMAND_LINE and key in FLAGS and kind != "value_error":
        return f"{FLAGS[key]} {what}, but got {got}."
    wrong = what if kind == "value_error" else f"it {what}"
    if isinstance(error["input"], dict):  # no copy of the whole section
        return f"{source}: '{key}' is wrong: {wrong}. Change it and try again."
    return f"{source}: '{key}' is wrong: {wrong}, but got {got}. Change it and try again."


def _hint(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Suggests a setting: a similar one in the section, the same name in another section, or all known ones."""
    beside, name = _keys_beside(model, path), str(path[-1])
    near = did_you_mean(name, beside)
    if near:
        return near
    elsewhere = [key for key in all_keys(model) if key.rpartition(".")[2] == name]
    if elsewhere:
        return f" Did you mean {' or '.join(repr(key) for key in elsewhere)}?"
    return f" Known: {', '.join(beside)}."


def all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yields the dotted keys of all settings below a section."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from all_keys(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def source_of(path: tuple[int | str, ...], sources: list[Source]) -> str:
    """Returns the source of the setting at `path`."""
    for source in reversed(sources):
        values: Any = source.values
        for part in path:
            values = values.get(part) if isinstance(values, dict) else None
        if values is not None:
            return source.name
    return sources[-1].name if sources else "the workload's recipe"


def _shown(text: str) -> str:
    """Returns the text truncated to one printable line."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _how_to_list(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Describes the TOML syntax of the list at `path`."""
    sections = list(_sections_along(model, path))
    names = [str(part) for part in path if isinstance(part, str)]
    if len(sections) <= len(names):  # the last name is not a section: its values are plain
        return f"Write {names[-1]} = [ … ]."
    return f"Write [[{'.'.join(names)}]] above each of its tables, or {names[-1]} = [ {{ … }}, … ]."


def _keys_beside(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Returns the keys of the section that contains `path`."""
    return sorted(list(_sections_along(model, path[:-1]))[-1].model_fields)


def _sections_along(model: type[BaseModel], path: tuple[int | str, ...]) -> Iterator[type[BaseModel]]:
    """Yields the sections along `path`, outermost first."""
    yield model
    for part in path:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        inner = _section_in(field.annotation) if field is not None else None
        if inner is not None:
            model = inner
            yield model


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """Returns the section type of a field, also of a tuple's items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _section_in(inner))), None)
