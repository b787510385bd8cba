"""The layers of docs/architecture.md hold, torch stays where it belongs, and orchestrators stay small."""

import ast
import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "trainmark"

# From the top down. A part may import the layers below its own, and itself; nothing else.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"studies"},
    {"pipeline"},
    {"plan", "launch", "train", "collect", "store", "report", "predict"},
    {"data"},
    {"workloads"},
    {"machine"},
    {"spec"},
    {"__init__"},
)
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}

# Only these may import torch, and nothing else may import these when it is itself imported.
WITH_TORCH = ("train.torch.", "workloads.flops.", "machine.ceilings")
# What planning reads of the torch engine, on nodes without torch, too.
OF_PLANNING = ("train.torch", "train.torch.planning")

MOST_LINES = {"pipeline": 160, "train.loop": 120, "cli.": 110, "": 300}
MOST_LINES_OF_FUNCTION = {"pipeline": 25, "train.loop": 25, "cli.": 30, "": 45}
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "core", "misc"}


@functools.cache
def parsed(text: str) -> ast.Module:
    """Each text once: the copies with something planted are otherwise the same."""
    return ast.parse(text)


@functools.cache
def imports_in(text: str) -> tuple[tuple[ast.Import | ast.ImportFrom, bool], ...]:
    """The import statements, and whether they are executed when the module is imported."""
    tree = parsed(text)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return tuple((node, id(node) not in inside) for node in found)


class Import(NamedTuple):
    importer: str
    imported: str
    at_import: bool  # executed when the importer is imported, not only when a function runs


def module_name(path: Path, source: Path) -> str:
    name = ".".join(path.relative_to(source).with_suffix("").parts)
    return name.removesuffix(".__init__") if name != "__init__" else name


def imports_of(path: Path, source: Path) -> Iterator[Import]:
    importer = module_name(path, source)
    for node, at_import in imports_in(path.read_text()):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{importer}: relative import"
            # `from package import module` imports the module as well.
            names = [node.module or ""]
            names += [
                f"{node.module}.{alias.name}" for alias in node.names if _is_module(source, node.module, alias.name)
            ]
        for name in names:
            yield Import(importer, name, at_import)


def _is_module(source: Path, package: str | None, name: str) -> bool:
    folder = source.parent / (package or "").replace(".", "/")
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def part_of(module: str) -> str:
    return module.split(".")[0]


def uses_torch(module: str) -> bool:
    return module not in OF_PLANNING and (f"{module}.".startswith(WITH_TORCH) or module.startswith(WITH_TORCH))


def limit(limits: dict[str, int], module: str) -> int:
    return next(most for prefix, most in limits.items() if module.startswith(prefix))


def layer_violations(imports: list[Import]) -> Iterator[str]:
    for importer, imported, _ in imports:
        if not imported.startswith("trainmark"):
            continue
        target = imported.removeprefix("trainmark").removeprefix(".") or "__init__"
        above, below = part_of(importer), part_of(target)
        if above not in RANK or below not in RANK:
            yield f"{importer} → {target}: not a part of the architecture"
        elif above != below and RANK[above] >= RANK[below]:
            yield f"{importer} → {target}: {above} may not import {below}"
        elif below == "train" != above:
            yield f"{importer} → {target}: train is started by name, nothing imports it"


def torch_violations(imports: list[Import]) -> Iterator[str]:
    for importer, imported, at_import in imports:
        if part_of(imported) == "torch" and not uses_torch(importer):
            yield f"{importer} → torch: only {', '.join(WITH_TORCH)} may"
        target = imported.removeprefix("trainmark.")
        if at_import and target != imported and uses_torch(target) and not uses_torch(importer):
            yield f"{importer} → {target}: brings torch into a part that must load without it"


def cycle_violations(imports: list[Import]) -> Iterator[str]:
    graph: dict[str, set[str]] = {}
    for importer, imported, _ in imports:
        if imported.startswith("trainmark."):
            graph.setdefault(importer, set()).add(imported.removeprefix("trainmark."))
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> Iterator[str]:
        if module in path:
            yield "cycle: " + " → ".join([*path[path.index(module) :], module])
        elif module not in finished:
            for target in sorted(graph.get(module, ())):
                yield from visit(target, (*path, module))
            finished.add(module)

    for module in sorted(graph):
        yield from visit(module, ())


def size_violations(source: Path) -> Iterator[str]:
    for path in sorted(source.rglob("*.py")):
        module, text = module_name(path, source), path.read_text()
        tree = parsed(text)
        if not (ast.get_docstring(tree) or "").strip():
            yield f"{module}: no docstring that says its job"
        if EMPTY_NAMES & set(module.split(".")):
            yield f"{module}: a name that says nothing"
        if text.count("\n") > limit(MOST_LINES, module):
            yield f"{module}: {text.count(chr(10))} lines, at most {limit(MOST_LINES, module)}"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                has_docstring = ast.get_docstring(node) is not None
                body = node.body[1:] if has_docstring and len(node.body) > 1 else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1
                if lines > limit(MOST_LINES_OF_FUNCTION, module):
                    yield f"{module}.{node.name}: {lines} lines, at most {limit(MOST_LINES_OF_FUNCTION, module)}"


def violations(source: Path) -> list[str]:
    imports = [each for path in sorted(source.rglob("*.py")) for each in imports_of(path, source)]
    return [
        *layer_violations(imports),
        *torch_violations(imports),
        *cycle_violations(imports),
        *size_violations(source),
    ]


def planted(tmp_path: Path, file: str, text: str) -> list[str]:
    """The violations of a copy of the package with one file more."""
    source = tmp_path / "trainmark"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / file).write_text(text)
    return violations(source)


def test_the_architecture_holds() -> None:
    assert violations(SOURCE) == []


def test_an_import_upwards_is_caught(tmp_path: Path) -> None:
    found = planted(tmp_path, "spec/planted.py", '"""Planted."""\n\nfrom trainmark.plan.make import make_plan\n')
    assert any("spec may not import plan" in violation for violation in found)


def test_an_import_of_a_neighbour_is_caught_even_inside_a_function(tmp_path: Path) -> None:
    text = '"""Planted."""\n\n\ndef f() -> None:\n    from trainmark.store import runs\n    runs\n'
    assert any("report may not import store" in v for v in planted(tmp_path, "report/planted.py", text))


def test_an_import_of_train_from_above_is_caught(tmp_path: Path) -> None:
    found = planted(tmp_path, "cli/planted.py", '"""Planted."""\n\nfrom trainmark.train import loop\n')
    assert any("cli.planted → train.loop: train is started by name" in violation for violation in found)


def test_torch_in_the_neutral_part_of_train_is_caught_by_whatever_way_it_comes(tmp_path: Path) -> None:
    text = '"""Planted."""\n\nimport torch\n\nfrom trainmark.train.torch.engine import TorchEngine\n'
    found = planted(tmp_path, "train/planted.py", text)
    assert any("train.planted → torch: only " in violation for violation in found)
    assert any("train.planted → train.torch.engine: brings torch" in violation for violation in found)


def test_torch_outside_its_places_is_caught(tmp_path: Path) -> None:
    found = planted(
        tmp_path, "collect/planted.py", '"""Planted."""\n\n\ndef f() -> None:\n    import torch\n    torch\n'
    )
    assert any("collect.planted → torch" in violation for violation in found)


def test_a_cycle_is_caught(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    text = '"""Planted."""\n\nfrom trainmark.collect.planted_two import g\n'
    source = tmp_path / "a" / "trainmark"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "collect" / "planted_one.py").write_text(text)
    (source / "collect" / "planted_two.py").write_text(text.replace("planted_two", "planted_one"))
    assert any("cycle: collect.planted_one → collect.planted_two" in violation for violation in violations(source))


def test_a_grown_orchestrator_is_caught(tmp_path: Path) -> None:
    grown = (SOURCE / "pipeline.py").read_text() + "\n" * 200
    assert any("pipeline: " in v and "at most 160" in v for v in planted(tmp_path, "pipeline.py", grown))


def test_a_name_that_says_nothing_is_caught(tmp_path: Path) -> None:
    assert any("spec.utils: a name" in v for v in planted(tmp_path, "spec/utils.py", '"""Planted."""\n'))
