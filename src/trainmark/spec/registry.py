"""Lazily loaded named parts: a dictionary of name → "module:attribute", extended by entry points."""

import ast
import difflib
import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from trainmark.spec.errors import UnknownNameError
from trainmark.spec.files import one_line


def newest_version(name: str, known: Iterable[str]) -> str | None:
    """Returns the newest version of a name (resnet50 → resnet50-v1.5), or None."""
    return max((each for each in known if each.startswith(f"{name}-v")), default=None)


def did_you_mean(name: str, known: list[str]) -> str:
    """Returns a hint with the closest known name, or an empty string."""
    newest = newest_version(name, known)
    near = [newest] if newest else difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


def load_attribute(target: str, what: str) -> Any:
    """Loads a "module:attribute"; `what` names it in the error if that fails."""
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # a plug-in may raise anything when it is imported
        raise UnknownNameError(
            f"The {what} points at {target}, which cannot be loaded: {_reason(error)}. "
            "Check the installation of the package that provides it."
        ) from error


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, ImportError | AttributeError) else one_line(error)


class Registry(Mapping[str, str]):
    """The parts of one kind: `registry[name]` is a part's "module:attribute", `load(name)` the part itself."""

    def __init__(
        self, kind: str, own: dict[str, str], group: str, *, self_describing: bool = False, must_have: str = ""
    ) -> None:
        self.kind = kind
        self.group = group
        self._own = own
        self._describe_themselves = self_describing  # parts are records that load without a framework
        self._must_have = must_have  # the attribute by which a part of this kind is known
        self._all: dict[str, str] | None = None

    def _entries(self) -> dict[str, str]:
        if self._all is None:
            # Built-in entries win: a plug-in must not replace what a published result was measured with.
            plugged = {point.name: point.value for point in entry_points(group=self.group)}
            self._all = plugged | self._own
        return self._all

    def __getitem__(self, name: str) -> str:
        entries = self._entries()
        if name not in entries:
            known = sorted(entries)
            raise UnknownNameError(
                f"There is no {self.kind} '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}."
            )
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def __len__(self) -> int:
        return len(self._entries())

    def in_listed_order(self) -> list[str]:
        """Returns the names in registry order, plug-ins last."""
        return [*self._own, *(name for name in self if name not in self._own)]

    def load(self, name: str) -> Any:
        """Loads a part by name, or directly by a plug-in's "module:attribute"."""
        part = load_attribute(name if ":" in name else self[name], f"{self.kind} '{name}'")
        if self._must_have and not hasattr(part, self._must_have):
            raise UnknownNameError(
                f"The {self.kind} '{name}' is none: it has no {self._must_have} (docs/extending.md). "
                f"Known: {', '.join(self)}."
            )
        return part

    def describe(self, name: str) -> str:
        """Returns a part's description or docstring in one line, read from source, as importing may load torch."""
        if self._describe_themselves:
            return self._own_description(name)
        source = self._source(name)
        if source is None:
            return "(its module cannot be found)"
        tree, attribute = source
        definition = _definition(tree, attribute)
        return _first_line((definition and ast.get_docstring(definition)) or ast.get_docstring(tree) or "")

    def _own_description(self, name: str) -> str:
        try:
            return _first_line(str(getattr(self.load(name), "description", "(it has no description)")))
        except UnknownNameError as error:
            return f"(cannot be loaded: {_reason(error.__cause__ or error)})"

    def _source(self, name: str) -> tuple[ast.Module, str] | None:
        target = name if ":" in name else self[name]
        module_name, _, attribute = target.partition(":")
        try:
            spec = importlib.util.find_spec(module_name)
            if spec is None or spec.origin is None:
                return None
            return ast.parse(Path(spec.origin).read_text(encoding="utf-8")), attribute
        except (ImportError, OSError, ValueError, SyntaxError):
            return None


def _definition(tree: ast.Module, attribute: str) -> ast.FunctionDef | ast.ClassDef | None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == attribute:
            return node
    return None


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0].strip()
