"""Every dataset: says how many samples it has without making them, and gives the same ones each time."""

import numpy as np
import pytest

from trainmark.spec.registries import DATASETS


@pytest.mark.parametrize("name", list(DATASETS))
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
