"""Every dataset: says how many samples it has without making them, and gives the same ones each time."""

import numpy as np
import pytest

from trainmark.spec.registries import DATASETS

STORED = [name for name in DATASETS if not getattr(DATASETS.load(name), "is_synthetic", False)]
MADE_UP = [name for name in DATASETS if name not in STORED]


@pytest.mark.parametrize("name", STORED)
def test_splits_have_the_promised_number_of_samples_each_time_the_same(name: str) -> None:
    dataset = DATASETS.load(name)
    settings = dataset.Settings(num_train=70, num_eval=30)
    for split, count in (("train", 70), ("eval", 30)):
        assert dataset(settings).num_samples(split) == count
        first, again = dataset(settings).load(split), dataset(settings).load(split)
        assert len(first.samples) == len(first.labels) == count
        assert np.array_equal(first.samples, again.samples)
        assert first.fingerprint() == again.fingerprint()


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_setting_says_what_it_is(name: str) -> None:
    for field in DATASETS.load(name).Settings.model_fields.values():
        assert field.description


@pytest.mark.parametrize("name", MADE_UP)
def test_a_synthetic_dataset_has_a_shape_and_nothing_to_evaluate(name: str) -> None:
    dataset = DATASETS.load(name)
    made_up = dataset(dataset.Settings(num_train=70, channels=3, height=8, width=9))
    assert (made_up.num_samples("train"), made_up.num_samples("eval")) == (70, 0)
    assert made_up.sample_shape == (3, 8, 9)
