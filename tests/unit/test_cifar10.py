"""CIFAR-10's binary files: read byte by byte as documented, made alike, and checked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from trainmark.data.datasets.cifar10 import Cifar10, Cifar10Settings
from trainmark.data.split import Split
from trainmark.spec.errors import ConfigError, DataError
from trainmark.train.torch.batches import ResidentBatches

TRAINING = [f"data_batch_{number}.bin" for number in range(1, 6)]


def record(label: int, red: bytes, green: bytes, blue: bytes) -> bytes:
    """One byte, then three planes of 1,024."""
    return bytes([label]) + (red * 1024)[:1024] + (green * 1024)[:1024] + (blue * 1024)[:1024]


def opened(folder: Path) -> Cifar10:
    return Cifar10(Cifar10Settings(path=str(folder)))


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """Two records in each training file, one for evaluation."""
    for number, name in enumerate(TRAINING):
        plain = record(number, b"\x01", b"\x02", b"\x03")
        rows = record(9 - number, bytes(range(32)), b"\xff", b"\x00")  # red counts the columns
        (tmp_path / name).write_bytes(plain + rows)
    (tmp_path / "test_batch.bin").write_bytes(record(7, b"\x0a", b"\x14", b"\x1e"))
    (tmp_path / "batches.meta.txt").write_text("airplane\n")
    return tmp_path


def test_bytes_written_by_hand_are_the_images_they_should_be(by_hand: Path) -> None:
    train, held_out = opened(by_hand).load("train"), opened(by_hand).load("eval")
    assert train.samples.shape == (10, 3, 32, 32) and train.samples.dtype == np.uint8
    assert train.labels.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert [np.unique(plane).tolist() for plane in train.samples[0]] == [[1], [2], [3]]
    assert train.samples[1, 0, 5].tolist() == list(range(32))  # a row
    assert train.samples[1, 0, :, 5].tolist() == [5] * 32  # a column
    assert held_out.labels.tolist() == [7]
    assert held_out.samples[0, :, 0, 0].tolist() == [10, 20, 30]
    assert list(opened(by_hand).check()) == []


def test_samples_are_counted_by_the_length_of_files(by_hand: Path) -> None:
    assert (opened(by_hand).num_samples("train"), opened(by_hand).num_samples("eval")) == (10, 1)
    made = Cifar10(Cifar10Settings(num_train=70, num_eval=30))
    assert (made.num_samples("train"), made.num_samples("eval")) == (70, 30)
    with pytest.raises(ConfigError, match=r"data\.path=DIR"):
        made.load("train")


def test_each_channel_is_normalised_by_its_own_mean_and_deviation(by_hand: Path) -> None:
    batches = ResidentBatches(opened(by_hand).load("eval"), torch.device("cpu"), channels_last=False)
    ((samples, labels),) = batches.take(np.array([[0]]), None)
    assert labels.tolist() == [7]
    # (10 − 125.307) / 62.993, (20 − 122.950) / 62.089, (30 − 113.865) / 66.705
    assert samples[0, :, 3, 3].tolist() == pytest.approx([-1.830473, -1.658104, -1.257252], abs=1e-5)
    last = ResidentBatches(opened(by_hand).load("eval"), torch.device("cpu"), channels_last=True)
    assert torch.equal(next(last.in_order([np.array([0])])), samples)


def test_images_that_lie_pixel_by_pixel_in_memory_are_gathered_in_the_layout_asked_for() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8).transpose(0, 3, 1, 2)
    split = Split(pixels, np.arange(4), np.zeros(3, np.float32), np.full(3, 2, np.float32))
    batches = ResidentBatches(split, torch.device("cpu"), channels_last=False)
    ((samples, _),) = batches.take(np.array([[2, 0]]), None)
    assert samples.is_contiguous()
    assert np.array_equal(samples.numpy(), pixels[[2, 0]] / np.float32(2))


def test_what_is_made_has_the_files_of_the_real_one_and_is_read_back(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    settings = Cifar10Settings(num_train=52, num_eval=11)
    Cifar10(settings).make(tmp_path, lambda made, total: told.append((made, total)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batches.meta.txt", *TRAINING, "test_batch.bin"]
    # 52 images in five files: 11, 11, 10, 10, 10
    assert [(tmp_path / name).stat().st_size for name in TRAINING] == [33803, 33803, 30730, 30730, 30730]
    assert told == [(11, 63), (22, 63), (32, 63), (42, 63), (52, 63), (63, 63)]
    train = opened(tmp_path).load("train")
    assert (len(train.labels), opened(tmp_path).num_samples("eval")) == (52, 11)
    assert set(train.labels.tolist()) <= set(range(10))
    assert train.fingerprint() == opened(tmp_path).load("train").fingerprint()
    assert list(opened(tmp_path).check()) == []


def test_one_check_finds_everything_that_is_wrong(by_hand: Path) -> None:
    (by_hand / "batches.meta.txt").unlink()
    (by_hand / TRAINING[0]).write_bytes(b"")
    (by_hand / TRAINING[1]).write_bytes((by_hand / TRAINING[1]).read_bytes()[:-1])
    (by_hand / TRAINING[2]).unlink()
    five = b"".join(record(label, b"\x01", b"\x01", b"\x01") for label in (1, 10, 2, 255, 3))
    (by_hand / TRAINING[3]).write_bytes(five)
    found = [(Path(problem.file).name, problem.index, problem.what) for problem in opened(by_hand).check()]
    assert found == [
        ("batches.meta.txt", None, "missing: it has the class names"),
        (TRAINING[0], None, "is empty"),
        (TRAINING[1], None, "has 6,145 bytes, not a multiple of 3,073"),
        (TRAINING[2], None, "cannot be read: no such file or directory"),
        (TRAINING[3], 1, "label 10, but classes are 0 to 9"),
        (TRAINING[3], 3, "label 255, but classes are 0 to 9"),
        (TRAINING[1], None, "has 1 record, but another training file 5"),
        (TRAINING[4], None, "has 2 records, but another training file 5"),
    ]


def test_a_file_of_a_wrong_length_is_refused(by_hand: Path) -> None:
    path = by_hand / TRAINING[4]
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DataError, match=r"data_batch_5\.bin has 6,147 bytes, not a multiple of 3,073"):
        opened(by_hand).num_samples("train")
    with pytest.raises(DataError, match=r"Unpack cifar-10-binary\.tar\.gz again"):
        opened(by_hand).load("train")


def test_a_label_that_no_class_has_is_refused(by_hand: Path) -> None:
    (by_hand / "test_batch.bin").write_bytes(record(1, b"\0", b"\0", b"\0") + record(11, b"\0", b"\0", b"\0"))
    with pytest.raises(DataError, match=r"test_batch\.bin \(record 1\) has the label 11.*`trainmark data check`"):
        opened(by_hand).load("eval")


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data_batch_1\.bin cannot be read: no such file or directory"):
        opened(tmp_path).load("train")
