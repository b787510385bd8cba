"""Shapes of images in class folders: read from headers, kept between runs, and not believed where they may be wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.planned import planned_config
from trainmark.data.datasets import imagenet
from trainmark.data.datasets.imagenet import Imagenet, ImagenetSettings
from trainmark.data.facts import facts_of
from trainmark.data.folders import generate_missing, open_dataset, with_folder
from trainmark.data.images.resized import ResizedImages
from trainmark.plan.data_check import image_refusals
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import DataError

SIZES = [(60, 40), (50, 70), (90, 33), (64, 64)]  # width and height


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "val"):
        (tmp_path / "images" / split / "a").mkdir(parents=True)
        for number, size in enumerate(SIZES):
            Image.new("RGB", size).save(tmp_path / "images" / split / "a" / f"{number}.png")
    return tmp_path / "images"


def opened(folder: Path, cache: Path | None = None) -> Imagenet:
    return Imagenet(ImagenetSettings(path=str(folder), resize="none", shape_cache=str(cache) if cache else None))


def shapes_of(dataset: Imagenet) -> Any:
    split = dataset.load("train")
    assert isinstance(split, ResizedImages) and split.shapes is not None
    return split.shapes.tolist()


HEIGHTS_WIDTHS = [[height, width] for width, height in SIZES]


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any header that is read fails the test."""

    def fail(*arguments: Any) -> None:
        raise AssertionError("headers were read")

    monkeypatch.setattr(imagenet, "read_shapes", fail)


def test_images_are_left_as_they_are_with_the_shapes_of_their_headers(folder: Path) -> None:
    dataset = opened(folder)
    assert shapes_of(dataset) == HEIGHTS_WIDTHS and dataset.variable_shape and dataset.augmentations == ("none",)
    split = dataset.load("train")
    assert [list(split.read(index, "none", 0).shape) for index in range(4)] == [[3, *shape] for shape in HEIGHTS_WIDTHS]
    assert split.sample_shape == dataset.sample_shape == (3, 52, 62)  # medians of 40 70 33 64 and of 60 50 90 64
    assert facts_of(dataset).sample_shape == (3, 52, 62)


def test_orientation_counts(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 40)).save(folder / "train" / "a" / "0.png", exif=exif)
    assert shapes_of(opened(folder))[0] == [60, 40]


def test_shapes_are_kept_by_preparing_and_then_no_header_is_read(
    folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cache = tmp_path / "cache"
    assert shapes_of(opened(folder, cache)) == HEIGHTS_WIDTHS and not cache.exists()  # planning writes nothing
    opened(folder, cache).prepare()
    assert len(list(cache.iterdir())) == 2  # one per split
    request.getfixturevalue("unreadable")
    assert shapes_of(opened(folder, cache)) == HEIGHTS_WIDTHS
    opened(folder, cache).prepare()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_or_foreign_cache_is_ignored(folder: Path, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    opened(folder, cache).prepare()
    for path in cache.iterdir():
        content = bytearray(path.read_bytes())
        if damage == "foreign":
            with path.open("wb") as file:
                np.savez(file, shapes=np.full((4, 2), 7), key=np.array("another"))
            continue
        content[content.index(np.int64(40).tobytes())] ^= 0xFF
        path.write_bytes({"cut": content[:100], "flipped": content, "empty": b""}[damage])
    assert shapes_of(opened(folder, cache)) == HEIGHTS_WIDTHS
    opened(folder, cache).prepare()  # replaces it
    assert shapes_of(opened(folder, cache)) == HEIGHTS_WIDTHS


def test_another_file_of_another_size_is_read_anew(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    opened(folder, cache).prepare()
    Image.new("L", (300, 200), 9).save(folder / "train" / "a" / "0.png")
    assert shapes_of(opened(folder, cache))[0] == [200, 300]


def test_limits_hold_for_shapes_from_the_cache(folder: Path, tmp_path: Path) -> None:
    opened(folder, tmp_path / "cache").prepare()
    settings = ImagenetSettings(path=str(folder), resize="none", shape_cache=str(tmp_path / "cache"), smallest_side=35)
    with pytest.raises(DataError, match=r"2\.png .*too small: 33 × 90"):
        Imagenet(settings).load("train")


def test_a_cache_that_cannot_be_written_is_no_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    opened(folder, tmp_path / "file").prepare()
    assert shapes_of(opened(folder, tmp_path / "file")) == HEIGHTS_WIDTHS


def test_a_header_that_cannot_be_read_names_its_file(folder: Path) -> None:
    (folder / "train" / "a" / "2.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"a/2\.png \(sample 2\) cannot be used: the file is empty\. .*data check"):
        opened(folder).load("train")


def config_of(folder: Path, **train: Any) -> RunConfig:
    data = {"path": str(folder), "resize": "none"}
    return planned_config(dataset="imagenet", data=data, train=train)


def test_a_run_keeps_shapes_in_its_data_folder(folder: Path, tmp_path: Path) -> None:
    config = config_of(folder)
    assert with_folder(config, tmp_path / "data")["shape_cache"] == str(tmp_path / "data")
    generate_missing(config, tmp_path / "data", lambda made, total: None)
    assert len(list((tmp_path / "data").glob("shapes-*.npz"))) == 2
    assert shapes_of(open_dataset(config, tmp_path / "data")) == HEIGHTS_WIDTHS


def test_images_that_are_left_as_they_are_are_not_cut(folder: Path) -> None:
    config = config_of(folder)
    assert list(image_refusals(config)) == []
    cut = config.model_copy(update={"train": config.train.model_copy(update={"augmentation": "crop"})})
    assert any("does not support the augmentation crop" in refusal for refusal in image_refusals(cut))
