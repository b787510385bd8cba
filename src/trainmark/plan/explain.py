"""What is wrong with a setting, in one line: where it came from, which it is, what was got, what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from trainmark.spec.registry import closest

MOST_SHOWN = 100


@dataclass(frozen=True)
class Choices:
    """Nested settings and where they came from: a file's name or "the command line"."""

    source: str
    values: dict[str, Any]


def explain(
    errors: list[ErrorDetails], model: type[BaseModel], choices: list[Choices], prefix: tuple[str, ...] = ()
) -> str:
    """One line about the error that is most likely the cause of the others."""
    # A misspelt key is often the one that is missing as well: the misspelling tells more.
    error = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    path, what = error["loc"], error["msg"].removeprefix("Value error, ")
    key = ".".join([*prefix, *(str(part) for part in path)])
    source = source_of((*prefix, *path), choices)
    if error["type"] == "extra_forbidden":
        known = _keys_beside(model, path)
        hint = closest(str(path[-1]), known) or f" Known here: {', '.join(known)}."
        return f"{source}: there is no setting '{_shown(key)}'.{hint}"
    if error["type"] == "model_type":
        return f"{source}: '{key}' is a section with settings of its own, but got {_shown(repr(error['input']))}."
    if not key:
        return f"{source}: {what}. Correct it and try again."
    if error["type"] == "missing":
        return f"{source}: the setting '{key}' is missing. Add it."
    if error["type"] == "tuple_type":
        return f"{source}: '{key}' is a list, but got {_shown(repr(error['input']))}. {_how_to_list(model, path)}"
    what = what.replace("Tuple should", "List should").replace(" after validation", "")
    if isinstance(error["input"], dict):  # what is wrong within a section needs no copy of the whole
        return f"{source}: '{key}' is wrong: {what}. Change it and try again."
    return f"{source}: '{key}' is wrong: {what}, but got {_shown(repr(error['input']))}. Change it and try again."


def source_of(path: tuple[int | str, ...], choices: list[Choices]) -> str:
    """Where the setting at `path` came from."""
    for choice in reversed(choices):
        values: Any = choice.values
        for part in path:
            values = values.get(part) if isinstance(values, dict) else None
        if values is not None:
            return choice.source
    return choices[-1].source if choices else "the workload's recipe"


def _shown(text: str) -> str:
    """The text, on one line and not longer than a line."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _how_to_list(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """How TOML writes the list at `path`."""
    sections = list(_sections_along(model, path))
    names = [str(part) for part in path if isinstance(part, str)]
    if len(sections) <= len(names):  # the last name is no section: its values are plain
        return f"Write {names[-1]} = [ … ]."
    return f"Write [[{'.'.join(names)}]] above each of its tables, or {names[-1]} = [ {{ … }}, … ]."


def _keys_beside(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The keys that the section knows in which `path` ends."""
    return sorted(list(_sections_along(model, path[:-1]))[-1].model_fields)


def _sections_along(model: type[BaseModel], path: tuple[int | str, ...]) -> Iterator[type[BaseModel]]:
    """The sections that `path` leads through, from the outermost."""
    yield model
    for part in path:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        inner = _section_in(field.annotation) if field is not None else None
        if inner is not None:
            model = inner
            yield model


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, alone or as the items of a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _section_in(inner))), None)
