"""Named parts, loaded only when used: a written dictionary of name → "module:attribute", extended by entry points."""

import ast
import difflib
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from trainmark.spec.errors import UnknownNameError


def closest(name: str, known: list[str]) -> str:
    """A hint that names the nearest known name, or nothing when none is near."""
    # A name without its version means the newest: resnet50 is resnet50-v1.5.
    versions = sorted(each for each in known if each.startswith(f"{name}-v"))
    near = versions[-1:] or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


class Registry(Mapping[str, str]):
    """The parts of one kind. `registry[name]` is where a part lives; `load(name)` is the part itself."""

    def __init__(self, kind: str, own: dict[str, str], group: str) -> None:
        self.kind = kind
        self.group = group
        self._own = own
        self._all: dict[str, str] | None = None

    def _entries(self) -> dict[str, str]:
        if self._all is None:
            # Our own entries win: a plug-in adds parts, it never replaces what a published result was measured with.
            plugged = {point.name: point.value for point in entry_points(group=self.group)}
            self._all = plugged | self._own
        return self._all

    def __getitem__(self, name: str) -> str:
        entries = self._entries()
        if name not in entries:
            known = sorted(entries)
            raise UnknownNameError(
                f"There is no {self.kind} '{name}'.{closest(name, known)} Known: {', '.join(known)}."
            )
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def __len__(self) -> int:
        return len(self._entries())

    def as_written(self) -> list[str]:
        """The names in the order in which they are listed, those of plug-ins last."""
        return [*self._own, *(name for name in self if name not in self._own)]

    def load(self, name: str) -> Any:
        """The part called `name`; a "module:attribute" is loaded as it stands, for a plug-in's own code."""
        target = name if ":" in name else self[name]
        module_name, _, attribute = target.partition(":")
        try:
            return getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise UnknownNameError(
                f"The {self.kind} '{name}' points at {target}, which cannot be loaded: {error}. "
                "Check that the package that provides it is installed whole."
            ) from error

    # Importing a part may pull in torch. What planning must know of it is read from its source instead.

    def describe(self, name: str) -> str:
        """One line about a part."""
        source = self._source(name)
        if source is None:
            return "(its module cannot be found)"
        tree, attribute = source
        definition = _definition(tree, attribute)
        told = ast.get_docstring(definition) if definition else _about(tree, attribute)
        return _first_line(told or ast.get_docstring(tree) or "")

    def arguments(self, name: str) -> dict[str, Any] | None:
        """The arguments that a part's function takes, with their defaults; None where its source does not tell."""
        source = self._source(name)
        definition = source and _definition(*source)
        if not isinstance(definition, ast.FunctionDef) or definition.args.kwarg:
            return None
        given = definition.args
        without = [None] * (len(given.args) - len(given.defaults))
        defaults = (*without, *given.defaults, *given.kw_defaults)
        names = (argument.arg for argument in (*given.args, *given.kwonlyargs))
        return {name: _literal(value) for name, value in zip(names, defaults, strict=True)}

    def constant(self, name: str, constant: str) -> Any:
        """A constant that a part's module states, such as INPUT_SHAPE; None where it states none."""
        source = self._source(name)
        for node in source[0].body if source else []:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == constant for target in targets):
                return _literal(getattr(node, "value", None))
        return None

    def _source(self, name: str) -> tuple[ast.Module, str] | None:
        target = name if ":" in name else self[name]
        module_name, _, attribute = target.partition(":")
        try:
            spec = importlib.util.find_spec(module_name)
        except ImportError:
            spec = None
        if spec is None or spec.origin is None:
            return None
        return ast.parse(Path(spec.origin).read_text(encoding="utf-8")), attribute


def _definition(tree: ast.Module, attribute: str) -> ast.FunctionDef | ast.ClassDef | None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == attribute:
            return node
    return None


def _about(tree: ast.Module, attribute: str) -> str | None:
    """What a part that is a record says of itself: the text that it is made with as `about`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_it = any(isinstance(target, ast.Name) and target.id == attribute for target in node.targets)
            texts = [_literal(keyword.value) for keyword in node.value.keywords if keyword.arg == "about"]
            if is_it and texts:
                return str(texts[0])
    return None


def _literal(node: ast.expr | None) -> Any:
    """The value of a number, text, tuple and the like; None for what would have to be computed. Nothing is run."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].strip()
