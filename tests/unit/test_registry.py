"""The registry loads lazily, hints at near names, and describes parts without importing them."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.spec.errors import UnknownNameError
from trainmark.spec.registries import KINDS, MODELS
from trainmark.spec.registry import Registry


def test_a_wrong_name_answers_with_the_nearest_and_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as error:
        MODELS.load("resnet50-v2")
    assert "There is no model 'resnet50-v2'. Did you mean 'resnet50-v1" in str(error.value)
    assert "resnet-tiny" in str(error.value)


def test_a_far_name_gets_no_hint() -> None:
    with pytest.raises(UnknownNameError, match=r"^There is no thing 'xyzzy'\. Known: alpha\.$"):
        Registry("thing", {"alpha": "a:b"}, group="none").load("xyzzy")


def test_a_part_is_imported_only_when_loaded() -> None:
    registry = Registry("thing", {"broken": "no.such.module:x"}, group="none")
    assert list(registry) == ["broken"]
    with pytest.raises(UnknownNameError, match=r"points at no\.such\.module:x, which cannot be loaded"):
        registry.load("broken")


def test_a_module_and_attribute_is_loaded_as_it_stands() -> None:
    assert Registry("thing", {}, group="none").load("math:pi") == pytest.approx(3.14159, abs=1e-5)


def test_every_part_has_one_line_about_it() -> None:
    for registry in KINDS.values():
        for name in registry:
            line = registry.describe(name)
            assert len(line) > 15, (registry.kind, name)
            assert "\n" not in line


def test_describing_all_parts_imports_no_torch() -> None:
    code = (
        "import sys; from trainmark.spec.registries import KINDS; "
        "[r.describe(n) for r in KINDS.values() for n in r]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_facts_are_read_from_a_source_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "written_out.py").write_text(
        "raise RuntimeError('imported')\n"
        "SHAPE: tuple = (3, 8)\n"
        "COMPUTED = 2 * len(SHAPE)\n"
        "def build(classes, width=4, depth=COMPUTED, *, wide=True): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("model", {"written": "written_out:build"}, group="nothing.plugged")
    assert registry.constant("written", "SHAPE") == (3, 8)
    assert registry.constant("written", "COMPUTED") is None
    assert registry.constant("written", "MISSING") is None
    assert registry.arguments("written") == {"classes": None, "width": 4, "depth": None, "wide": True}
