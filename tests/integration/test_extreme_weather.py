"""The science application as a user runs it: data made or found, detectors trained, boxes fused, faults told."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command
from tests.run_events import events_of

SMALL = [
    *("--set", "train.epochs=2", "--set", "measure.ceiling_seconds=0.01", "--set", "train.batch_size=4"),
    *("--set", "data.num_train=24", "--set", "data.num_eval=12", "--set", "launch.threads=1"),
]


def value(result: dict[str, Any], metric: str) -> float:
    return float(result["metrics"][metric]["value"])


@pytest.mark.slow
def test_two_detectors_learn_to_find_storms_and_fused_they_find_more(warm_trainmark: Command) -> None:
    settings = ("train.epochs=3", "measure.ceiling=false", "evaluate.out_of_bag=false")
    options = [option for setting in settings for option in ("--set", setting)]
    done = warm_trainmark("run", "extreme-weather", "--members", "2", *options, "--json", timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # Three of the recipe's eight epochs; untrained detectors find nothing.
    assert value(result, "quality_member_mean") > 0.4
    assert value(result, "quality_ensemble") > value(result, "quality_member_mean")
    vflops = result["metrics"]["vflops"]
    assert vflops["exponent"] == 10
    coefficient = (value(result, "quality_ensemble") / 0.65) ** 10
    assert vflops["value"] == pytest.approx(value(result, "flops") * coefficient)


def test_the_command_counts_what_the_run_counts_and_the_run_adds_the_proposals_that_training_had(
    warm_trainmark: Command, tmp_path: Path
) -> None:
    done = warm_trainmark("run", "extreme-weather", *SMALL, "--members", "1", "--workers", "2", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    detail = result["metrics"]["flops"]["detail"]
    document = json.loads(warm_trainmark("flops", "extreme-weather", "--json").stdout)
    counted = next(e for e in events_of(tmp_path / "runs" / result["run_id"]) if e["kind"] == "model_ready")
    assert document.items() <= counted.items()
    assert document["input_shape"] == [16, 64, 96]
    counts = document["conventions"]
    assert 0 < detail["proposals_per_image"] <= 32  # as many as are drawn of each image, at most
    for convention, count in counts.items():
        expected = count["training"] + detail["proposals_per_image"] * count["per_proposal"]["training"]
        assert detail["training_flop_per_sample"][convention] == pytest.approx(expected)
        assert sum(detail["operators"][convention].values()) == pytest.approx(expected)


def test_data_made_by_command_are_checked_and_trained_on(warm_trainmark: Command, tmp_path: Path) -> None:
    few = ("--set", "num_train=24", "--set", "num_eval=12")
    made = warm_trainmark("data", "make", "extreme-weather", "--size", "tiny", "-o", "storms", *few)
    assert made.returncode == 0, made.stderr
    assert "24 training and 12 evaluation samples in storms" in made.stdout and "Note" not in made.stdout
    assert (
        warm_trainmark("data", "check", "extreme-weather", "storms").stdout == "storms: 36 samples read, 0 problems\n"
    )
    done = warm_trainmark("run", "extreme-weather", *SMALL, "--members", "1", "--set", "data.path=storms", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"]["data"]["path"] == str(tmp_path / "storms")
    assert not (tmp_path / "runs" / "data").exists()
    assert not any("NOT the data" in warning for warning in json.loads(done.stdout)["warnings"])


def test_small_data_for_the_full_size_are_made_and_checked_with_a_note(warm_trainmark: Command) -> None:
    few = ("--set", "num_train=2", "--set", "num_eval=1")
    made = warm_trainmark("data", "make", "extreme-weather", "--size", "full", "-o", "storms", *few)
    checked = warm_trainmark("data", "check", "extreme-weather", "storms", "--size", "full")
    for done in (made, checked):
        assert done.returncode == 0, done.stderr
        assert "Note: These are not the data of extreme-weather in size full: simulated by trainmark; " in done.stdout
        assert "images of 16 × 64 × 96, not 16 × 768 × 1152." in done.stdout
    document = json.loads(
        warm_trainmark("data", "check", "extreme-weather", "storms", "--size", "full", "--json").stdout
    )
    assert document["problems"] == [] and "images of 16 × 64 × 96" in document["note"]


def test_a_file_that_is_cut_off_is_named_by_run_and_by_check(warm_trainmark: Command, tmp_path: Path) -> None:
    warm_trainmark("data", "make", "extreme-weather", "-o", "storms", "--set", "num_train=8", "--set", "num_eval=4")
    (broken,) = (tmp_path / "storms" / "train").glob("*.h5")
    broken.write_bytes(broken.read_bytes()[:100_000])
    done = warm_trainmark("run", "extreme-weather", "--set", "data.path=storms")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert str(broken) in done.stderr and "Traceback" not in done.stderr
    checked = warm_trainmark("data", "check", "extreme-weather", "storms", "--json")
    assert checked.returncode == 1
    assert [problem["file"] for problem in json.loads(checked.stdout)["problems"]] == ["storms/train/climo_1979.h5"]


def test_the_other_ensemble_of_detectors_is_a_choice(warm_trainmark: Command) -> None:
    done = warm_trainmark("run", "extreme-weather", *SMALL, "--members", "2", "--set", "quality=map50-nms", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"]["quality"] == "map50-nms"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("extreme-weather", "--size", "full"), "trains on real data, but data.path is not set"),
        (
            ("extreme-weather", "--set", "model=resnet18"),
            "is made for classification, but extreme-weather is detection",
        ),
        (("--set", "dataset=extreme-weather"), "is made for detection, but image-classification is classification"),
        (("extreme-weather", "--set", "train.torch.compiler=inductor"), "Choose --set train.torch.compiler=none"),
        (("extreme-weather", "--set", "train.augmentation=crop"), "does not support the augmentation crop"),
        (("extreme-weather", "--workers", "2", "--set", "train.parallel=gpipe"), "cannot be split by layers"),
        (("extreme-weather", "--set", "quality=top1"), "'top1' is made for classification"),
        (("--set", "quality=map50"), "'map50' is made for detection"),
        (("extreme-weather", "--set", "model_settings.depth=12"), "needs one of 10, 18, 34, 50, 101, but got 12"),
        (("extreme-weather", "--set", "data.path=/nowhere"), "/nowhere"),
    ],
)
def test_what_does_not_fit_together_is_refused_at_once(
    warm_trainmark: Command, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = warm_trainmark("run", *arguments)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_speed_alone_is_measured_on_synthetic_images_of_any_size(warm_trainmark: Command) -> None:
    done = warm_trainmark(
        *("run", "extreme-weather", "--members", "1", "--set", "dataset=synthetic", "--set", "data.num_train=16"),
        *("--set", "data.height=96", "--set", "data.width=128", "--set", "train.epochs=1", "--json"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["engine"]["synthetic"] is True
    assert "synthetic" in result["metrics"]["quality_ensemble"]["reason"]
    assert value(result, "throughput_samples_per_s") > 0
