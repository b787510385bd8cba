"""Top-5 accuracy: the label is among the five most probable classes; beside top-1 in every classification."""

from typing import Any

import numpy as np
import pytest

from tests.unit.written_events import with_facts, written_member, written_predictions, written_run
from trainmark.collect.compute import compute_metric
from trainmark.collect.measured import Measured
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.errors import ConfigError
from trainmark.workloads.quality.map50 import Map50
from trainmark.workloads.quality.top1 import Top1
from trainmark.workloads.quality.top5 import Top5

# Classes 0 to 7 from the most to the least probable.
FALLING = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.04, 0.02], np.float32)


def predicted(rows: list[Any], labels: list[int]) -> dict[str, Any]:
    return written_predictions() | {"eval_predictions": np.array(rows, np.float32), "eval_labels": np.array(labels)}


def test_the_fifth_counts_and_the_sixth_does_not() -> None:
    for label, is_right in enumerate([1, 1, 1, 1, 1, 0, 0, 0]):
        assert Top5.score(FALLING[None], np.array([label])) == is_right
        assert Top5.score(FALLING[None, ::-1], np.array([7 - label])) == is_right


def test_of_equal_probabilities_the_first_classes_are_taken_as_top_1_does() -> None:
    equal = np.full((8, 8), 0.125)
    assert Top1.score(equal, np.arange(8)) == 1 / 8
    assert Top5.score(equal, np.arange(8)) == 5 / 8
    # Four classes are ahead; of the two that share the fifth place, class 2 is first.
    shared = np.array([[0.2, 0.2, 0.05, 0.05, 0.2, 0.2, 0.01, 0.01]])
    assert [Top5.score(shared, np.array([label])) for label in (2, 3)] == [1, 0]


def test_predictions_that_are_not_numbers_are_not_all_right() -> None:
    assert Top1.score(np.full((8, 8), np.nan), np.arange(8)) == 1 / 8
    assert Top5.score(np.full((8, 8), np.nan), np.arange(8)) == 5 / 8


def test_it_has_wilsons_interval() -> None:
    # 2 of 2: by Wilson's formula from 2 / (2 + 3.8415) = 0.3424 to 1.
    assert Top5.interval(np.stack([FALLING, FALLING]), np.array([4, 0])) == pytest.approx((0.3424, 1.0), abs=1e-4)


def test_the_ensembles_top_5_is_that_of_the_mean_probabilities() -> None:
    # The first takes classes 0 to 4, the second 3 to 7: 2 and 3 of the four labels.
    first = predicted([FALLING] * 4, [4, 5, 7, 0])
    second = predicted([FALLING[::-1]] * 4, [4, 5, 7, 0])
    measured = written_run(written_member(0, predictions=first), written_member(1, predictions=second))
    members = compute_metric("top5_member_mean", measured)
    assert (members.value, members.n) == (pytest.approx((2 / 4 + 3 / 4) / 2), 2)
    assert members.detail == {"min": 0.5, "max": 0.75, "mean": 0.625}
    # Means: 0.16, 0.12, 0.11, 0.11, 0.11, 0.11, 0.12, 0.16. Classes 0, 7, 1, 6 and, of those alike, 2 or 3.
    ensemble = compute_metric("top5_ensemble", measured)
    assert (ensemble.value, ensemble.n) == (2 / 4, 4)
    assert ensemble.detail == {"members": 2, "of_members": 2}


NAMES = ["top5_ensemble", "top5_member_mean"]


@pytest.mark.parametrize("name", NAMES)
def test_with_five_classes_it_would_tell_nothing(name: str) -> None:
    def of_classes(count: int) -> Measured:
        return written_run(written_member(0, predictions=predicted([FALLING[:count]], [0])))

    assert compute_metric(name, of_classes(5)).reason == "not applicable: top5 needs 6 classes, there are 5"
    assert compute_metric(name, of_classes(6)).value == 1


@pytest.mark.parametrize("name", NAMES)
def test_detections_and_synthetic_data_have_none(name: str) -> None:
    measured = written_run(written_member(0))
    boxes = Measured(measured.config.model_copy(update={"quality": "map50"}), measured.plan, Map50, measured.members)
    assert compute_metric(name, boxes).reason == "not applicable: top5 does not score predictions of map50"
    synthetic = written_run(with_facts(written_member(0), {"data_ready": {"synthetic": True}}))
    assert compute_metric(name, synthetic).reason == "not applicable: synthetic data"


def test_as_the_quality_of_a_run_it_needs_six_classes() -> None:
    chosen = resolve_config([parse_setting("quality=top5")])
    assert (chosen.quality, chosen.model_settings["num_classes"]) == ("top5", 10)
    few = ["quality=top5", "dataset=synthetic", "data.num_classes=5", "model_settings.num_classes=5"]
    with pytest.raises(ConfigError, match=r"^top5 needs at least 6 classes, but resnet-tiny has 5: any prediction"):
        resolve_config([parse_setting(text) for text in few])
