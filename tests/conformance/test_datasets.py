"""Every dataset: states its size without making it, gives the same samples each time, and finds its faults."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from trainmark.data.split import Split
from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import DATASETS, TASKS

MADE_UP = [name for name in DATASETS if getattr(DATASETS.load(name), "is_synthetic", False)]
ON_DISK = [name for name in DATASETS if hasattr(DATASETS.load(name), "make")]
LEARNED_FROM = [name for name in DATASETS if name not in MADE_UP]
COUNTS = {"train": 70, "eval": 30}
SMALL: dict[str, dict[str, Any]] = {"artworks": {"mean_megapixels": 0.04}}  # where samples are large by default
# Settings with which samples differ in height and width.
VARIABLE: list[tuple[str, dict[str, Any]]] = [
    ("artworks", {"input": "mr", "side": 40}),
    ("artworks", {"input": "hr"}),
    ("imagenet", {"resize": "none"}),
]


def opened(name: str, folder: Path, **others: Any) -> Any:
    """The dataset with few samples, made in `folder` if it lies on disk."""
    kind = DATASETS.load(name)
    settings = kind.Settings(num_train=COUNTS["train"], num_eval=COUNTS["eval"], **SMALL.get(name, {}), **others)
    if name not in ON_DISK:
        return kind(settings)
    if not any(folder.iterdir()):
        kind(settings).make(folder, lambda made, total: None)
    return kind(settings.model_copy(update={"path": str(folder)}))


@pytest.mark.parametrize("name", LEARNED_FROM)
def test_splits_have_the_promised_number_of_samples_each_time_the_same(name: str, tmp_path: Path) -> None:
    kind = DATASETS.load(name)
    before = kind(kind.Settings(num_train=COUNTS["train"], num_eval=COUNTS["eval"]))
    for split, count in COUNTS.items():
        assert before.num_samples(split) == count
        first, again = opened(name, tmp_path).load(split), opened(name, tmp_path).load(split)
        assert opened(name, tmp_path).num_samples(split) == len(first.labels) == count
        assert np.array_equal(first.labels, again.labels)
        assert first.fingerprint() == again.fingerprint()
        if isinstance(first, Split):
            assert np.array_equal(first.samples, again.samples) and len(first.samples) == count
        else:
            assert np.array_equal(first.read(3, "none", 0), again.read(3, "none", 0)) and len(first) == count


@pytest.mark.parametrize("name", LEARNED_FROM)
def test_samples_have_the_stated_shape_and_are_normalised(name: str, tmp_path: Path) -> None:
    split = opened(name, tmp_path).load("train")
    samples = split.samples if isinstance(split, Split) else np.stack([split.read(i, "none", 0) for i in range(40)])
    assert samples.shape[1:] == split.sample_shape
    offset, scale = (np.asarray(value, np.float64).reshape(-1, 1, 1) for value in (split.offset, split.scale))
    seen = (samples - offset) / scale
    assert abs(seen.mean()) < 1.5 and 0.2 < seen.std() < 2


@pytest.mark.parametrize("name", LEARNED_FROM)
def test_samples_of_one_shape_have_no_shapes_of_their_own(name: str, tmp_path: Path) -> None:
    dataset = opened(name, tmp_path)
    assert not getattr(dataset, "variable_shape", False) and dataset.load("train").shapes is None


@pytest.mark.parametrize(("name", "settings"), VARIABLE)
def test_samples_of_many_shapes_have_the_stated_ones(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    kind = DATASETS.load(name)
    planned = kind(kind.Settings(num_train=70, num_eval=30, **SMALL.get(name, {}), **settings))
    dataset = opened(name, tmp_path, **settings)
    for split in (dataset.load("train"), dataset.load("eval")):
        assert dataset.variable_shape and split.shapes.shape == (len(split), 2) and split.shapes.dtype == np.int64
        assert len({tuple(shape) for shape in split.shapes.tolist()}) > 5
        for index, (height, width) in enumerate(split.shapes.tolist()):
            sample = split.read(index, "none", 0)
            assert sample.shape == (3, height, width) and sample.dtype == np.uint8
        assert split.sample_shape == (3, *np.median(split.shapes, axis=0).astype(int))
    shape = dataset.load("train").sample_shape
    assert np.allclose(planned.sample_shape, shape, rtol=0.15)  # about as large as before they were made
    assert list(dataset.check()) == []


@pytest.mark.parametrize("name", ON_DISK)
def test_random_changes_follow_from_the_seed_alone(name: str, tmp_path: Path) -> None:
    split = opened(name, tmp_path).load("train")
    if isinstance(split, Split):
        pytest.skip("it is changed in memory, as tests/unit/test_batches.py checks")
    for change in DATASETS.load(name).augmentations:
        assert np.array_equal(split.read(5, change, 77), split.read(5, change, 77))
        assert np.array_equal(split.read(5, change, 0), split.read(5, "none", 0))
        assert change == "none" or not np.array_equal(split.read(5, change, 77), split.read(5, change, 78))


@pytest.mark.parametrize("name", ON_DISK)
def test_a_sample_is_its_stored_bytes_decoded(name: str, tmp_path: Path) -> None:
    split = opened(name, tmp_path).load("train")
    if isinstance(split, Split):
        pytest.skip("it is read whole")
    change = DATASETS.load(name).augmentations[-1]
    for index in (0, 33, COUNTS["train"] - 1):
        raw = split.raw(index)
        assert len(raw) == split.size_bytes(index)
        kept = bytes(raw)  # as it comes back from anywhere else
        assert np.array_equal(split.decode(kept, index, change, 77), split.read(index, change, 77))


@pytest.mark.parametrize("name", ON_DISK)
def test_nothing_is_wrong_with_what_it_makes(name: str, tmp_path: Path) -> None:
    assert list(opened(name, tmp_path).check()) == []


@pytest.mark.parametrize("name", ON_DISK)
def test_it_knows_about_how_many_bytes_it_makes(name: str, tmp_path: Path) -> None:
    opened(name, tmp_path)
    kind = DATASETS.load(name)
    told = kind(kind.Settings(num_train=COUNTS["train"], num_eval=COUNTS["eval"], **SMALL.get(name, {}))).made_bytes
    assert told == pytest.approx(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()), rel=0.2)


@pytest.mark.parametrize("name", list(DATASETS))
def test_it_refuses_more_samples_than_a_bootstrap_can_be_drawn_of(name: str) -> None:
    kind = DATASETS.load(name)
    kind.Settings(num_train=100_000_000)
    with pytest.raises(ValueError, match="less than or equal to 100000000"):
        kind.Settings(num_train=100_000_001)


@pytest.mark.parametrize("name", ON_DISK)
def test_every_file_that_is_cut_off_is_found_in_one_pass(name: str, tmp_path: Path) -> None:
    dataset = opened(name, tmp_path)
    files = sorted(path for path in tmp_path.rglob("*") if path.suffix in (".h5", ".bin", ".jpg", ".JPEG"))
    broken = files[::2][:3]
    for path in broken:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert {problem.file for problem in dataset.check()} >= {str(path) for path in broken}


@pytest.mark.parametrize("name", list(DATASETS))
def test_its_augmentations_and_its_task_are_known(name: str) -> None:
    kind = DATASETS.load(name)
    assert set(kind.augmentations) <= set(get_args(TrainConfig.model_fields["augmentation"].annotation))
    assert "none" in kind.augmentations
    assert getattr(kind, "task", "classification") in {*TASKS, "any"}


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
