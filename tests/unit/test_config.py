"""Choices from files, flags and --set are merged; what is wrong is named with its source; a RunConfig has none open."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from trainmark.plan.explain import Source
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, read_config_file, read_site_file, resolve_config
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.config_file import config_text
from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.site import NodeGroup, Site, Slot


def resolve(*settings: str) -> RunChoices:
    return resolve_config([parse_setting(setting) for setting in settings])


def test_the_workloads_recipe_is_the_default() -> None:
    config = resolve()
    assert (config.workload, config.size, config.train.epochs, config.evaluate.exponent) == (
        *("image-classification", "tiny"),
        *(6, 5),
    )
    assert config.data["num_train"] == 4000


def test_later_choices_win(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("seed = 5\n[train]\nepochs = 3\nbatch_size = 16\n")
    config = resolve_config(
        [read_config_file(file), Source("the command line", {"seed": 6}), parse_setting("train.epochs=4")]
    )
    assert (config.seed, config.train.epochs, config.train.batch_size) == (6, 4, 16)


def test_settings_of_torch_are_understood_under_the_names_of_earlier_versions(tmp_path: Path) -> None:
    file = tmp_path / "old.toml"
    file.write_text('[train]\ncompiler = "inductor"\nrecompute = true\n')
    torch = resolve_config([read_config_file(file), parse_setting("train.offload=disk")]).train.torch
    assert (torch.compiler, torch.recompute, torch.offload) == ("inductor", True, "disk")
    assert resolve_config([read_config_file(file), parse_setting("train.torch.compiler=none")]).train.torch == (
        resolve_config([read_config_file(file), parse_setting("train.compiler=none")]).train.torch
    )


def test_the_tuned_allocator_is_understood_under_its_old_name() -> None:
    assert resolve_config([parse_setting("launch.allocator=keep")]).launch.allocator == "glibc-tuned"
    stored = tomllib.loads(OLD_CONFIG) | {"launch": {"allocator": "keep"}}
    assert RunConfig.model_validate(stored).launch.allocator == "glibc-tuned"
    with pytest.raises(
        ConfigError, match=r"must be 'glibc-tuned', 'glibc-mmap', 'system', 'tcmalloc' or 'jemalloc', but got 'kept'"
    ):
        resolve_config([parse_setting("launch.allocator=kept")])


def test_a_setting_under_its_old_and_its_new_name_is_refused_unless_both_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "both.toml"
    file.write_text('[train]\ncompiler = "inductor"\ntorch.compiler = "none"\n')
    with pytest.raises(
        ConfigError, match=r"both\.toml: train\.compiler is 'inductor', but train\.torch\.compiler, .*'none'"
    ):
        resolve_config([read_config_file(file)])
    with pytest.raises(ValidationError, match=r"train\.compiler is 'inductor', but train\.torch\.compiler"):
        RunConfig.model_validate(tomllib.loads(file.read_text()))
    file.write_text('[train]\ncompiler = "inductor"\ntorch.compiler = "inductor"\n')
    assert resolve_config([read_config_file(file)]).train.torch.compiler == "inductor"


def test_a_recipes_settings_of_torch_are_for_its_own_model_alone() -> None:
    assert resolve().train.torch.compiler == "none"
    assert resolve("model=resnet18").train.torch.compiler is None


def test_values_are_read_as_toml_and_else_as_text() -> None:
    assert parse_setting("a.b=3").values == {"a": {"b": 3}}
    assert parse_setting("a=0.5").values == {"a": 0.5}
    assert parse_setting("a=false").values == {"a": False}
    assert parse_setting("a=poisson").values == {"a": "poisson"}


@pytest.mark.parametrize("text", ["30,60,80", "[30, 60, 80]", '"30, 60, 80"', "[30.0, 60, 80.0]"])
def test_epochs_are_listed_as_in_toml_or_separated_by_commas(text: str, tmp_path: Path) -> None:
    site = Site(name="s", groups=(NodeGroup(slots=(Slot(cores=(0,)),)),))
    config, _ = make_plan(resolve(f"train.decay_at={text}"), site)
    assert config.train.decay_at == (30, 60, 80)
    (tmp_path / "config.toml").write_text(config_text(config))
    assert make_plan(resolve_config([read_config_file(tmp_path / "config.toml")]), site)[0] == config
    assert resolve("train.decay_at=30").train.decay_at == (30,)
    assert resolve("train.epochs=3").train.decay_at is None


@pytest.mark.parametrize("text", ["train.epochs", "=3", "train..epochs=3"])
def test_a_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--set needs key=value.*--set train\.epochs=3"):
        parse_setting(text)


def test_an_unknown_key_names_its_file_and_the_nearest_key(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[train]\nepoch = 3\n")
    with pytest.raises(ConfigError, match=r"my\.toml: there is no setting 'train\.epoch'\. Did you mean 'epochs'\?"):
        resolve_config([read_config_file(file)])


def test_an_unknown_key_of_the_dataset_is_refused_too() -> None:
    with pytest.raises(ConfigError, match=r"--set data\.num_trian: .*'data\.num_trian'\. Did you mean 'num_train'\?"):
        resolve("data.num_trian=10")


def test_a_wrong_value_says_what_was_got() -> None:
    with pytest.raises(ConfigError, match=r"--set train\.epochs: 'train\.epochs' is wrong: .*got 0"):
        resolve("train.epochs=0")
    with pytest.raises(ConfigError, match=r"'train' is a section with settings, but got 3"):
        resolve("train=3")
    with pytest.raises(ConfigError, match=r"'train\.learning_rate' is wrong"):
        resolve("train.learning_rate=nan")


def test_a_setting_of_a_part_says_which_kind_of_value_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"^--set data\.noise: 'data\.noise' is wrong: must be a finite number, but"):
        resolve("data.noise=nan")
    with pytest.raises(ConfigError, match=r"'model_settings\.width' is wrong: must be a finite number, but got inf"):
        resolve("model_settings.width=inf")
    with pytest.raises(ConfigError, match=r"'data\.eval_files' is wrong: must be a string, .* \(several names: one"):
        resolve("workload=extreme-weather", 'data.eval_files=["a.h5", "b.h5"]')


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("workload=image-clasification", "Did you mean 'image-classification'?"),
        ("size=tny", "Did you mean 'tiny'?"),
        ("train.optimizer=sdg", "Did you mean 'sgd'?"),
        ("train.schedule=cosin", "Did you mean 'cosine'?"),
        ("launch.launcher=locl", "Did you mean 'local'?"),
    ],
)
def test_a_wrong_name_answers_with_the_nearest_one(setting: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as error:
        resolve(setting)
    assert hint in str(error.value)


RULES = {
    "train.epsilon": "the optimizer's own",
    "train.stages": "all workers of a member",
    "train.batch_norm_momentum": "the model's own",
    "train.decay_at": "every decay_epochs",
    "train.communication_group": "the workers of a node; near a square",
    "launch.python": "the site's, else the one that runs trainmark",
    "train.steps": "as many as the epochs have",
    "train.batch_pixels": "those of batch_size images of mean size",
    "evaluate.samples": "all held-out samples",
    "train.minutes": "as long as the epochs last",
    "launch.memory_gib": "all that there is",
    "launch.threads": "one for each core that the worker has",
    "launch.interop_threads": "the engine's own",
    "measure.inference_batch_size": "that of training",
    "launch.time_limit_minutes": "the site's, else the partition's",
}


def open_fields(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The settings that may be None."""
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from open_fields(field.annotation, f"{prefix}{name}.")
        elif type(None) in get_args(field.annotation):
            yield f"{prefix}{name}"


def test_none_in_a_run_config_is_a_rule_and_never_a_choice_still_to_be_made() -> None:
    assert set(open_fields(RunConfig)) == set(RULES)
    assert set(open_fields(RunChoices)) - set(RULES) == {
        *("ensemble.members", "ensemble.workers", "ensemble.system_scale", "train.precision"),
        *("train.torch.compiler", "train.torch.memory_format", "train.torch.cuda_graph"),
        *("launch.allocator", "launch.loader_workers"),
    }


def test_a_stored_config_of_an_earlier_version_reads_as_what_that_version_did() -> None:
    old = tomllib.loads(OLD_CONFIG)
    config = RunConfig.model_validate(old)
    assert (config.train.precision, config.launch.allocator, config.launch.loader_workers) == ("fp32", "glibc-tuned", 0)
    torch = config.train.torch
    assert (torch.compiler, torch.memory_format, torch.cuda_graph) == ("none", "channels-last", False)
    assert config.train.engine == "torch"
    with pytest.raises(ValidationError, match=r"ensemble\.workers\n +Field required"):
        RunConfig.model_validate(old | {"ensemble": {"members": 2}})


OLD_CONFIG = """
workload = "image-classification"
size = "tiny"
model = "resnet-tiny"
dataset = "shapes"
quality = "top1"
ensemble = {members = 2, workers = 1, system_scale = 2}
evaluate = {target_quality = 0.8, exponent = 5.0}
[train]
epochs = 1
batch_size = 32
optimizer = "sgd"
learning_rate = 0.05
reference_batch_size = 32
schedule = "polynomial"
memory_format = "channels-last"
"""


def test_the_stored_config_repeats_the_run(tmp_path: Path) -> None:
    site = Site(name="s", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1,)))),))
    config, plan = make_plan(resolve("train.epochs=2", "seed=9", "ensemble.bootstrap=multinomial"), site)
    (tmp_path / "config.toml").write_text(config_text(config))
    again, plan_again = make_plan(resolve_config([read_config_file(tmp_path / "config.toml")]), site)
    assert (again, plan_again) == (config, plan)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml", "cannot be read as TOML"),
        ('name = "s"\n', "the setting 'groups' is missing"),
        ('name = "s"\n[[groups]]\nslots = [{cores = "0"}]\nslotss = 1\n', "Did you mean 'slots'"),
        ('name = "s"\n[[groups]]\nslots = [{cores = "0-1"}, {cores = "1"}]\n', "core 1 is in two slots"),
        ('name = "s"\n[[groups]]\nslots = [{cores = "0,0"}]\n', "a slot lists a core twice"),
        (
            'name = "s"\n[[groups]]\nslots = [{cores = "0"}]\n[[groups]]\nslots = [{cores = "0"}]\n',
            "two nodes are called 'node1'",
        ),
        ('name = "s"\n[[groups]]\ncount = 2\nnames = ["a"]\nslots = [{cores = "0"}]\n', "1 names for 2 nodes"),
    ],
)
def test_a_wrong_site_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_site_file(file)
    assert message in str(error.value)
    assert "site.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_site_file_lists_cores_as_linux_does(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text('name = "s"\n[[groups]]\nprefix = "cn"\ncount = 3\nslots = [{cores = "0-3,8"}]\n')
    site = read_site_file(file)
    assert site.groups[0].slots[0].cores == (0, 1, 2, 3, 8)
    assert site.groups[0].node_names == ("cn1", "cn2", "cn3")


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml does not exist\."):
        read_config_file(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="is a folder"):
        read_config_file(tmp_path)


@pytest.mark.parametrize(
    "setting", ["train.epochs=true", "train.epochs='3'", "seed='7'", "measure.ceiling=1", "data.num_train=2.5"]
)
def test_a_value_of_another_type_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match="is wrong"):
        resolve(setting)


@pytest.mark.parametrize("cores", ["0-", "3-1", "x", "0-99999999999", "-1"])
def test_what_is_no_list_of_cores_is_refused(tmp_path: Path, cores: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f'name = "s"\n[[groups]]\nslots = [{{cores = "{cores}"}}]\n')
    with pytest.raises(ConfigError, match=r"is not a core or a range of cores; write them like 0-3,8"):
        read_site_file(file)
