"""Parts that do not fit the workload, or settings that a model cannot take, are refused before anything starts."""

import subprocess
import sys

import pytest

from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import RunChoices
from trainmark.spec.errors import ConfigError
from trainmark.train.torch.detection.backbone import DEPTHS
from trainmark.workloads.find import find_card


def resolve(*settings: str) -> RunChoices:
    return resolve_config([parse_setting(setting) for setting in settings])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("workload=extreme-weather quality=top1", "quality 'top1' is made for classification, but extreme-weather is"),
        ("quality=map50", "The quality 'map50' is made for detection, but image-classification is classification"),
        ("quality=map50-nms", "The quality 'map50-nms' is made for detection"),
        ("workload=extreme-weather model=resnet18", "The model 'resnet18' is made for classification"),
        ("workload=extreme-weather dataset=shapes", "The dataset 'shapes' is made for classification"),
    ],
)
def test_a_part_for_another_task_is_refused(settings: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(*settings.split())
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("setting", "needed"),
    [
        ("depth=12", "needs one of 10, 18, 34, 50, 101, but got 12"),
        ("width=0", "needs a whole number of at least 1, but got 0"),
        ("width=1.5", "needs a whole number of at least 1, but got 1.5"),
        ("hidden=many", "needs a whole number of at least 1, but got 'many'"),
        ("num_classes=true", "needs a whole number of at least 1, but got True"),
        ("anchor_scale=large", "needs a number, but got 'large'"),
    ],
)
def test_a_setting_that_the_model_cannot_take_is_refused(setting: str, needed: str) -> None:
    key = setting.split("=")[0]
    with pytest.raises(ConfigError) as error:
        resolve("workload=extreme-weather", f"model_settings.{setting}")
    assert str(error.value).startswith(f"--set model_settings.{key}: 'model_settings.{key}' is wrong: faster-rcnn ")
    assert needed in str(error.value) and "\n" not in str(error.value)


def test_settings_that_the_model_can_take_are_accepted() -> None:
    settings = resolve(
        "workload=extreme-weather", "model_settings.depth=18", "model_settings.anchor_scale=2"
    ).model_settings
    assert (settings["depth"], settings["anchor_scale"]) == (18, 2)


def test_the_depths_that_planning_allows_are_those_that_there_are() -> None:
    assert find_card("faster-rcnn").allowed == {"depth": tuple(DEPTHS)}


def test_refusing_needs_no_torch() -> None:
    program = (
        "import sys\n"
        "from trainmark.plan.resolve import parse_setting, resolve_config\n"
        "from trainmark.spec.errors import ConfigError\n"
        "try:\n"
        "    resolve_config([parse_setting('workload=extreme-weather'), parse_setting('model_settings.depth=12')])\n"
        "except ConfigError:\n"
        "    sys.exit('torch' in sys.modules)\n"
        "sys.exit(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_synthetic_data_of_a_workloads_own_model_have_the_shape_and_number_of_its_data() -> None:
    data = resolve("workload=extreme-weather", "dataset=synthetic").data
    assert data == {"num_train": 400, "channels": 16, "height": 64, "width": 96, "num_classes": 4}
    data = resolve("dataset=synthetic").data
    assert data == {"num_train": 4000, "channels": 3, "height": 32, "width": 32, "num_classes": 10}


def test_synthetic_data_of_a_full_workload_have_the_real_shape() -> None:
    data = resolve("workload=extreme-weather", "size=full", "dataset=synthetic").data
    assert (data["channels"], data["height"], data["width"], data["num_train"]) == (16, 768, 1152, 12_800)
    assert resolve("size=cifar10", "dataset=synthetic").data["height"] == 32


def test_synthetic_data_of_another_model_have_that_models_shape() -> None:
    data = resolve("model=resnet18", "dataset=synthetic").data
    assert (data["height"], data["width"], data["num_train"]) == (224, 224, 12_800)


def test_a_full_workload_without_data_is_offered_a_run_for_speed_that_ends() -> None:
    with pytest.raises(ConfigError) as error:
        resolve("workload=extreme-weather", "size=full")
    offered = "--set dataset=synthetic --set data.num_train=320 --set train.epochs=1"  # 40 steps of eight images
    assert offered in str(error.value)
    config = resolve("workload=extreme-weather", "size=full", *offered.replace("--set ", "").split())
    assert (config.data["num_train"], config.train.epochs) == (320, 1)


@pytest.mark.parametrize(
    ("settings", "classes", "head"),
    [
        ("dataset=synthetic model=resnet50-v1.5", 1000, 1000),
        ("dataset=synthetic model=resnet50-v1.5 model_settings.num_classes=20", 20, 20),
        ("dataset=synthetic model=resnet50-v1.5 data.num_classes=30", 30, 30),
        ("model=resnet18", None, 10),  # on shapes, which has ten classes
        ("dataset=imagenet data.num_classes=12 model=resnet18", 12, 12),
        ("dataset=pacs", None, 7),
        ("model=resnet18 model_settings.num_classes=1000", None, 1000),
    ],
)
def test_labels_and_the_models_head_have_the_same_number_of_classes(
    settings: str, classes: int | None, head: int
) -> None:
    config = resolve(*settings.split())
    assert config.data.get("num_classes") == classes
    assert config.model_settings["num_classes"] == head


def test_a_target_in_percent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"top1 is at most 1, but got 80; write 0\.8 for 80 %\.$"):
        resolve("evaluate.target_quality=80")
    with pytest.raises(ConfigError, match="map50 is at most 1, but got 800; choose a reachable one"):
        resolve("workload=extreme-weather", "evaluate.target_quality=800")
    assert resolve("evaluate.target_quality=1").evaluate.target_quality == 1
