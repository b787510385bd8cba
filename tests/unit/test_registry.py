"""The registry loads lazily, hints at near names, and describes parts without importing them."""

import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.data.bootstrap import sample_counts
from trainmark.launch.launcher import load_launcher
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.registries import KINDS, MODELS
from trainmark.spec.registry import Registry, newest_version


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


def test_a_part_is_described_from_its_source_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "written_out.py").write_text(
        '"""A module that is heavy to load."""\n'
        "raise RuntimeError('imported')\n"
        "def build():\n"
        '    """A part of it.\n\n    With more to say."""\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    places = {"part": "written_out:build", "value": "written_out:VALUE", "lost": "no_such_module:build"}
    registry = Registry("optimizer", places, group="nothing.plugged")
    assert registry.describe("part") == "A part of it."
    assert registry.describe("value") == "A module that is heavy to load."
    assert registry.describe("lost") == "(its module cannot be found)"


def test_a_model_is_described_by_its_card_and_one_that_cannot_be_loaded_spoils_no_list() -> None:
    places = {"card": "trainmark.workloads.models:RESNET18", "lost": "no_such_module:CARD", "none": "math:pi"}
    registry = Registry("model", places, group="nothing.plugged", self_describing=True)
    assert registry.describe("card").startswith("ResNet-18: four stages")
    assert registry.describe("lost") == "(cannot be loaded: No module named 'no_such_module')"
    assert registry.describe("none") == "(it has no description)"


def test_a_name_without_its_version_means_the_newest() -> None:
    assert newest_version("resnet50", MODELS) == "resnet50-v1.5"
    assert newest_version("resnet18", MODELS) is None


@pytest.mark.parametrize("name", [":", ".:x", "os:", "broken_on_import:x", "ends_on_import:x"])
def test_what_cannot_be_loaded_is_one_line_whatever_it_raises(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_on_import.py").write_text("x = (")
    (tmp_path / "ends_on_import.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownNameError, match=r"^The thing '.*' points at .*, which cannot be loaded: "):
        Registry("thing", {}, group="none").load(name)
    assert Registry("thing", {"x": name}, group="none").describe("x") is not None


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("dataset=os:system", "The dataset 'os:system' is none: it has no Settings"),
        ("workload=os:system", "The workload 'os:system' is none: it has no sizes"),
        ("quality=os:system", "The quality 'os:system' is none: it has no score"),
    ],
)
def test_a_name_of_something_else_is_refused(setting: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        resolve_config([parse_setting(setting)])


@pytest.mark.parametrize("name", ["os:system", "os:getcwd"])
def test_a_launcher_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"^The launcher '{name}' is none: .* Known launchers: local, mpi"):
        load_launcher(name)


def test_a_bootstrap_that_fails_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^The bootstrap 'os:system' failed: TypeError"):
        sample_counts("os:system", 10, 1, 0)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000])
def test_a_value_that_python_cannot_read_is_a_string(value: str) -> None:
    assert parse_setting(f"train.steps={value}").values == {"train": {"steps": value}}
