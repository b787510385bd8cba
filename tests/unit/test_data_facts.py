"""Data are compared with what a workload's size states: a small folder in ImageNet's layout is not ImageNet."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.written_events import written_member, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.warnings import find_warnings
from trainmark.data.facts import declared_facts, differences, facts_of
from trainmark.plan.dataset import find_stored_dataset, note_of_size
from trainmark.spec.errors import UnknownNameError
from trainmark.spec.registries import DATASETS, METRICS, WORKLOADS
from trainmark.spec.workload import DataFacts

CLASSIFICATION = WORKLOADS.load("image-classification").sizes
WEATHER = WORKLOADS.load("extreme-weather").sizes


def made(name: str, folder: Path, **settings: Any) -> Any:
    """A dataset that was made in `folder`, as it is read from there."""
    kind = DATASETS.load(name)
    kind(kind.Settings(**settings)).make(folder, lambda made, total: None)
    return kind(kind.Settings(path=str(folder)))


def test_the_sizes_of_real_data_state_what_was_published() -> None:
    assert CLASSIFICATION["full"].real_data == DataFacts(1_281_167, 50_000, 1000, (3, 224, 224))
    assert CLASSIFICATION["cifar10"].real_data == DataFacts(50_000, 10_000, 10, (3, 32, 32))
    assert CLASSIFICATION["pacs"].real_data == DataFacts(5444, 605, 7, (3, 224, 224))
    assert WEATHER["full"].real_data == DataFacts(num_classes=4, sample_shape=(16, 768, 1152))
    assert WEATHER["tiny"].real_data is None and CLASSIFICATION["tiny"].real_data is None


def test_the_real_numbers_differ_in_nothing() -> None:
    for size in (*CLASSIFICATION.values(), *WEATHER.values()):
        assert differences(size, size.dataset, size.real_data or DataFacts(num_train=3)) == []


def test_a_small_folder_in_imagenets_layout_is_not_imagenet(tmp_path: Path) -> None:
    found = facts_of(made("imagenet", tmp_path, num_train=6, num_eval=4, num_classes=3))
    assert differences(CLASSIFICATION["full"], "imagenet", found) == [
        "3 classes, not 1,000",
        "6 training samples, not 1,281,167",
        "4 held-out samples, not 50,000",
    ]


def test_small_cifar10_and_pacs_are_told_apart_by_their_samples(tmp_path: Path) -> None:
    few = facts_of(made("cifar10", tmp_path / "cifar", num_train=10, num_eval=4))
    assert differences(CLASSIFICATION["cifar10"], "cifar10", few) == [
        "10 training samples, not 50,000",
        "4 held-out samples, not 10,000",
    ]
    few = facts_of(made("pacs", tmp_path / "pacs", num_train=21, num_eval=7))
    assert differences(CLASSIFICATION["pacs"], "pacs", few) == [
        "21 training samples, not 5,444",
        "7 held-out samples, not 605",
    ]


def test_simulated_weather_says_so_itself_and_has_another_size(tmp_path: Path) -> None:
    dataset = made("extreme-weather", tmp_path, num_train=2, num_eval=1)
    assert differences(WEATHER["full"], "extreme-weather", facts_of(dataset)) == [
        "simulated by trainmark",
        "images of 16 × 64 × 96, not 16 × 768 × 1152",
    ]


def test_another_dataset_is_not_the_sizes_own() -> None:
    assert differences(CLASSIFICATION["full"], "pacs", DataFacts()) == ["pacs, not imagenet"]


def test_the_result_warns_first_of_data_that_are_not_the_sizes() -> None:
    measured = written_run(written_member(0))
    metrics = {name: compute_metric(name, measured) for name in METRICS}
    told = {"unlike_the_size": ["3 classes, not 1,000", "6 training samples, not 1,281,167"]}
    assert find_warnings(measured, metrics, {"members": []}, told)[0] == (
        "NOT the data of image-classification in size tiny: 3 classes, not 1,000; 6 training samples, not 1,281,167. "
        "Quality and VFLOPS cannot be compared with its target, nor with other runs of that size."
    )
    assert not any("NOT" in warning for warning in find_warnings(measured, metrics, {"members": []}, {}))


def test_the_check_of_a_workloads_size_notes_what_is_no_fault(tmp_path: Path) -> None:
    made("extreme-weather", tmp_path, num_train=2, num_eval=1)
    dataset = find_stored_dataset("extreme-weather", "full", [f"path={tmp_path}"])
    assert note_of_size("extreme-weather", "full", dataset) == (
        "These are not the data of extreme-weather in size full: simulated by trainmark; "
        "images of 16 × 64 × 96, not 16 × 768 × 1152."
    )
    assert note_of_size("extreme-weather", "tiny", dataset) is None
    assert note_of_size("imagenet", "full", dataset) is None  # a dataset, of no size
    assert list(dataset.check()) == []


def test_data_that_are_too_broken_to_be_counted_have_no_note(tmp_path: Path) -> None:
    dataset = find_stored_dataset("extreme-weather", "full", [f"path={tmp_path}"])
    assert note_of_size("extreme-weather", "full", dataset) is None


def test_a_workloads_own_shape_is_that_of_its_data() -> None:
    assert declared_facts(WEATHER["tiny"]).sample_shape == (16, 64, 96)
    assert declared_facts(WEATHER["full"]).sample_shape == (16, 768, 1152)
    assert [declared_facts(CLASSIFICATION[size]).sample_shape for size in ("tiny", "full", "cifar10", "pacs")] == [
        *((3, 32, 32), (3, 224, 224)),
        *((3, 32, 32), (3, 224, 224)),
    ]


def test_a_wrong_name_is_answered_with_each_known_one_once() -> None:
    with pytest.raises(UnknownNameError, match="There is no workload or dataset 'foo'") as error:
        find_stored_dataset("foo", "tiny", [])
    assert str(error.value).count("extreme-weather") == 1
