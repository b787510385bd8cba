"""What a program can check of the documentation: commands, options, settings, metrics, events and workloads."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
import typer
from pydantic import BaseModel

from tests.conftest import ROOT
from trainmark.cli.main import app
from trainmark.data.facts import facts_of
from trainmark.data.folders import planned_dataset
from trainmark.plan.estimate import estimate_run
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import RunConfig
from trainmark.spec.event_files import KINDS as EVENT_KINDS
from trainmark.spec.registries import DATASETS, KINDS, METRICS, STUDIES, WORKLOADS
from trainmark.spec.result import MemberResult, Metric, Result
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.status import StoredSpeed
from trainmark.workloads.find import find_card

DOCS = ROOT / "docs"
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]


def text(name: str) -> str:
    return (DOCS / name).read_text()


def section(page: str, heading: str) -> str:
    """The text under `## heading`, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text(page), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no heading '## {heading}'"
    return found[1]


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys_of(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_and_each_of_its_options_is_documented(command: str) -> None:
    about = section("commands.md", f"trainmark {command}")
    for parameter in COMMANDS[command].params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert f"`{option}`" in about, option


def test_every_key_of_a_site_file_is_documented() -> None:
    table = section("configuration.md", "The site")
    keys = [*keys_of(Site), *keys_of(NodeGroup, "groups."), *keys_of(Slot, "groups.slots.")]
    for key in keys:
        assert f"| `{key}` |" in table, key


def test_every_setting_is_documented_and_says_what_it_is() -> None:
    page = text("configuration.md")
    for key in keys_of(RunConfig):
        if key != "data":
            assert f"| `{key}` |" in page, key
    for name in DATASETS:
        for setting in DATASETS.load(name).Settings.model_fields:
            assert f"`data.{setting}`" in page, setting


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("optimizers", "optimizer"),
        ("schedules", "schedule"),
        ("precisions", "precision"),
        ("parallel", "parallel"),
        ("communication", "communication"),
        ("communication-precisions", "communication_precision"),
    ],
)
def test_every_choice_of_the_engine_is_in_the_table_of_what_a_user_may_choose(kind: str, key: str) -> None:
    table = section("configuration.md", "AI500's Table 2")
    for name in KINDS[kind]:
        assert f"`{key}={name}" in table, name


def test_every_kind_that_can_be_listed_is_named() -> None:
    about = section("commands.md", "trainmark list")
    for kind in KINDS:
        assert f"`{kind}`" in about, kind


@pytest.mark.parametrize("name", [name for name in DATASETS if "path" in DATASETS.load(name).Settings.model_fields])
def test_how_many_samples_are_made_by_default_is_documented(name: str) -> None:
    fields = DATASETS.load(name).Settings.model_fields
    row = f"| `{name}` | {fields['num_train'].default} | {fields['num_eval'].default}"
    assert row in section("configuration.md", "Settings of the dataset")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_the_pages_name_exist(page: Path) -> None:
    for path in re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", page.read_text()):
        assert (ROOT / path).exists(), path


def test_the_tests_that_the_table_of_choices_names_exist() -> None:
    named = re.findall(r"`((?:unit|conformance|integration)/\w+\.py)`", section("configuration.md", "AI500's Table 2"))
    assert len(named) > 20
    for path in named:
        assert (ROOT / "tests" / path).exists(), path


@pytest.mark.parametrize("metric", list(METRICS))
def test_every_metric_is_documented_with_its_unit(metric: str) -> None:
    about = section("metrics.md", metric)
    assert re.search(r"^(Unit |No unit)", about, re.MULTILINE)
    assert "Unavailable" in about


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_every_kind_of_event_is_documented(kind: str) -> None:
    assert f"`{kind}`" in text("result.md")


@pytest.mark.parametrize("record", [Result, MemberResult, Metric])
def test_every_field_of_a_result_is_documented(record: type[BaseModel]) -> None:
    page = text("result.md")
    for name, field in record.model_fields.items():
        shown = field.alias or name
        assert f"`{shown}`" in page or f'"{shown}"' in page, shown


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_every_workload_has_a_card(workload: str) -> None:
    card = text(f"workloads/{workload}.md")
    for name, size in WORKLOADS.load(workload).sizes.items():
        for fact in (name, size.model, size.dataset, f"{size.target_quality:g}", f"{size.exponent:g}"):
            assert fact in card, fact


def test_every_kind_of_part_is_in_the_guide_to_extending() -> None:
    for registry in KINDS.values():
        assert f"`{registry.group}`" in text("extending.md")


WRAPPED = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: page.name)
def test_prose_wraps_at_100_characters(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in prose.splitlines() if len(line) > 100 and not line.startswith(("|", "  |", "    "))]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_readme_names_the_two_commands_and_only_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make run" in readme
    assert "make test" in readme
    for command in re.findall(r"^    (?:\$ )?trainmark (\w+)", readme, re.MULTILINE):
        assert command in COMMANDS, command


def test_the_python_examples_of_the_extension_guide_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("trainmark_rings")
    monkeypatch.setitem(sys.modules, "trainmark_rings", module)
    for block in re.findall(r"```python\n(.*?)```", text("extending.md"), re.DOTALL):
        exec(compile(block, "extending.md", "exec"), vars(module))
    assert module.PER_CORE.description
    size = module.WORKLOAD.sizes["tiny"]
    card = find_card(size.model)
    assert len(card.build("torch", size.model_settings)(torch.zeros(5, *card.input_shape))[0]) == 3
    assert DATASETS.load(size.dataset)(module.RingsSettings(num_eval=7)).load("eval").samples.shape == (7, 2)


def test_every_run_that_the_readme_names_ends_in_about_a_minute_or_says_how_long_it_takes() -> None:
    lines = (ROOT / "README.md").read_text().replace("\\\n", " ").splitlines()
    commands = [line.strip() for line in lines if line.strip().startswith("trainmark run")]
    commands = [command for command in commands if "--site" not in command]  # those need a cluster
    assert len(commands) >= 4
    site = Site(name="two", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
    flags = {"--members": "ensemble.members", "--workers": "ensemble.workers", "--set": ""}
    for command in commands:
        words, _, comment = command.partition("#")
        given = [word for word in words.split()[2:] if word not in ("--json", "--dry-run")]
        settings = [f"workload={given.pop(0)}"] if given and not given[0].startswith("--") else []
        for flag, value in zip(given[::2], given[1::2], strict=True):
            settings.append(f"{flags[flag]}={value}" if flags[flag] else value)
        config, plan = make_plan(resolve_config([parse_setting(each) for each in settings]), site)
        facts = facts_of(planned_dataset(config, ROOT / "no-runs-here"))
        speed = StoredSpeed("a run on AVX-512", 150e9, 0.2)
        estimate = estimate_run(config, plan, site, facts, speed)
        assert estimate.seconds is not None, command
        assert estimate.seconds[0] < 60 or "minutes" in comment or "--dry-run" in command, (command, estimate)


def test_every_module_that_a_document_names_exists() -> None:
    parts = "cli|plan|launch|train|collect|store|report|data|workloads|machine|spec"
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {
        (page.name, module)
        for page in pages
        for module in re.findall(rf"`(?:src/trainmark/)?((?:{parts})/[\w/]+\.py)`", page.read_text())
    }
    assert len(named) > 40
    assert [each for each in sorted(named) if not (ROOT / "src/trainmark" / each[1]).exists()] == []


@pytest.mark.parametrize("name", list(STUDIES))
def test_every_study_is_documented_with_its_axes_and_what_it_reproduces(name: str) -> None:
    study = STUDIES.load(name)
    found = re.search(rf"^### {re.escape(name)}$(.*?)(?=^### |^## |\Z)", text("studies.md"), re.MULTILINE | re.DOTALL)
    assert found, f"studies.md has no heading '### {name}'"
    assert study.documents in found[1]
    assert f"trainmark study {name}" in found[1]
    for axis in study.axes:
        assert f"`--{axis.name}`" in found[1], axis.name
