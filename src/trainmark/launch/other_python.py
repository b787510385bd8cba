"""Runs a module of this trainmark in the Python environment that executes this file, which need not have trainmark.

Only the package `trainmark` is added: its folder may also hold the launching environment's packages, which must not
replace this environment's. With --check, modules are imported only, and what was found is printed as JSON. Until the
version is checked, any Python 3 must understand this file, also without trainmark's dependencies.
"""

import sys

OLDEST = (3, 11)


def main() -> None:
    """Runs `MODULE ARGUMENTS…`, or imports all of `--check MODULES…`."""
    # Python has put the folder of this file first, with modules whose names others may have too.
    sys.path[:] = [folder for folder in sys.path if folder != __file__.rpartition("/")[0]]
    name = sys.argv[1]
    if sys.version_info < OLDEST:
        if name == "--check":
            print_report([], None)
        sys.exit(f"trainmark: {sys.executable} is Python {version()}, but 3.11 or newer is needed")
    import importlib

    add_trainmark()
    if name == "--check":
        check(sys.argv[2:])
        return
    del sys.argv[0]
    importlib.import_module(name).main()


def version() -> str:
    """Returns the version of this Python, as in 3.11.7."""
    return ".".join(str(number) for number in sys.version_info[:3])


def add_trainmark() -> None:
    """Makes the package that holds this file importable, and nothing beside it."""
    import importlib.util
    from pathlib import Path

    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "trainmark", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules["trainmark"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["trainmark"])


def check(modules: "list[str]") -> None:
    """Imports the modules and prints which are missing, and the last error."""
    import importlib

    missing, last = [], None
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing.append(error.name or name)
        except Exception as error:  # noqa: BLE001  whatever prevents an import is the answer
            last = f"{type(error).__name__}: {error}"
    print_report(missing, last)


def print_report(missing: "list[str]", error: "str | None") -> None:
    """Prints version, missing modules and error on a line of its own: imports may print too."""
    import json

    print("\n" + json.dumps({"version": list(sys.version_info[:3]), "missing": missing, "error": error}), flush=True)


if __name__ == "__main__":
    main()
