"""Torch without its compiler, which torch loads (about 0.7 s) only to mark functions as not compiled.

Only for counting FLOPs: ranks run unmodified torch.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


def skip_compiler() -> None:
    """Defers loading the compiler until something is compiled; no-op if it is loaded."""
    sys.modules.setdefault(COMPILER, _DeferredCompiler(COMPILER))


class _DeferredCompiler(ModuleType):
    """The functions that eager code calls; any other attribute loads the real compiler."""

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """The function itself: it is not compiled."""
        return function

    @staticmethod
    def graph_break() -> None:
        """No-op: there is no graph."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # `inspect` looks at every module; an import needs the path
            raise AttributeError(name)
        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER]
        return getattr(importlib.import_module(COMPILER), name)
