"""Torch without its compiler, which torch loads (more than a second, thousands of files) without compiling anything.

Eager code asks it for little: to mark functions as not compiled, and whether there are traces to drop. Whatever else is
asked for loads it.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


def skip_compiler() -> None:
    """Defers loading the compiler until something is compiled; no-op if it is loaded."""
    sys.modules.setdefault(COMPILER, _Deferred(COMPILER, EAGER))


class _Deferred(ModuleType):
    """A module of the compiler that answers what eager code asks; any other attribute loads the real one."""

    def __init__(self, name: str, answers: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(answers)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # `inspect` looks at every module; an import needs the path
            raise AttributeError(name)
        if isinstance(sys.modules.get(COMPILER), _Deferred):
            del sys.modules[COMPILER]
        return getattr(importlib.import_module(self.__name__), name)


def _as_it_is(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    return function


def _nothing() -> None:
    pass


EAGER = {
    "disable": _as_it_is,
    "graph_break": _nothing,
    "trace_rules": _Deferred(f"{COMPILER}.trace_rules", {"clear_lru_cache": _nothing}),
    "utils": _Deferred(f"{COMPILER}.utils", {"get_optimize_ddp_mode": lambda: "no_optimization"}),
}
