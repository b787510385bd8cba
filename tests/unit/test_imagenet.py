"""ImageNet's folders: made, listed, read, and checked for everything that can be wrong with them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainmark.data.datasets.imagenet import Imagenet, ImagenetSettings
from trainmark.data.images.draw import draw_picture, figure_of
from trainmark.data.images.files import files_of
from trainmark.data.images.stored import StoredImages
from trainmark.spec.errors import ConfigError, DataError

SMALL: dict[str, Any] = {"num_train": 30, "num_eval": 12, "num_classes": 3, "image_size": 64}


def unwatched(made: int, total: int) -> None:
    pass


def opened(folder: Path, **settings: Any) -> Imagenet:
    return Imagenet(ImagenetSettings(path=str(folder), image_size=64, **settings))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "imagenet"
    Imagenet(ImagenetSettings(**SMALL)).make(folder, unwatched)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A dataset to be spoilt."""
    Imagenet(ImagenetSettings(num_train=8, num_eval=4, num_classes=2)).make(tmp_path, unwatched)
    return tmp_path


def empty_files(folder: Path, names: str) -> None:
    for name in names.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_what_is_made_has_imagenets_layout_and_is_read_back(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == ["train", "val"]
    assert sorted(path.name for path in (made / "val").iterdir()) == ["n00000001", "n00000002", "n00000003"]
    train, held_out = opened(made).load("train"), opened(made).load("eval")
    assert (len(train), len(held_out)) == (30, 12)
    assert train.labels.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert held_out.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert train.sample_shape == (3, 64, 64)
    for split in (train, held_out):
        for index in range(len(split)):
            sample = split.read(index, "none", 0)
            assert sample.shape == (3, 64, 64) and sample.dtype == np.uint8
    with Image.open(train.files.path(0)) as image:
        assert image.format == "JPEG"


def test_pictures_have_about_the_size_of_photographs(made: Path) -> None:
    sizes = [Image.open(path).size for path in sorted(made.rglob("*.JPEG"))]
    assert len(set(sizes)) > 30
    assert 450 < np.median([max(size) for size in sizes]) < 550
    assert 340 < np.median([min(size) for size in sizes]) < 410


def test_a_class_can_be_told_from_its_pictures(made: Path) -> None:
    def colours(split: StoredImages) -> np.ndarray:
        middles = np.stack([split.read(index, "none", 0)[:, 24:40, 24:40] for index in range(len(split))])
        return middles.mean(axis=(2, 3))

    train, held_out = opened(made).load("train"), opened(made).load("eval")
    known = np.stack([colours(train)[train.labels == label].mean(axis=0) for label in range(3)])
    nearest = np.linalg.norm(colours(held_out)[:, None] - known, axis=2).argmin(axis=1)
    assert np.mean(nearest == held_out.labels) > 0.6  # by chance a third


def test_the_same_seed_makes_the_same_files_and_more_images_do_not_change_the_first(tmp_path: Path, made: Path) -> None:
    other = {**SMALL, "num_train": 33}
    Imagenet(ImagenetSettings(**other)).make(tmp_path / "more", unwatched)
    Imagenet(ImagenetSettings(**SMALL, seed=2)).make(tmp_path / "seed", unwatched)
    for path in made.rglob("*.JPEG"):
        name = path.relative_to(made)
        assert path.read_bytes() == (tmp_path / "more" / name).read_bytes()
        assert path.read_bytes() != (tmp_path / "seed" / name).read_bytes()


def test_making_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    settings = ImagenetSettings(num_train=3, num_eval=2, num_classes=2)
    Imagenet(settings).make(tmp_path, lambda made, total: told.append((made, total)))
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_more_classes_than_images_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"10 classes need as many images in each split, but one has 4"):
        Imagenet(ImagenetSettings(num_train=20, num_eval=4)).make(Path("nowhere"), unwatched)


def test_samples_are_counted_by_names_alone(tmp_path: Path) -> None:
    empty_files(tmp_path, "train/b/1.JPEG train/b/2.jpg train/a/3.jpeg val/b/4.JPEG train/a/.hidden.JPEG train/a/notes")
    dataset = opened(tmp_path)
    assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (3, 1)
    assert dataset.load("train").labels.tolist() == [0, 1, 1]
    # The only class of val/ is the second one of train/.
    assert dataset.load("eval").labels.tolist() == [1]


def test_without_a_folder_it_counts_what_would_be_made() -> None:
    dataset = Imagenet(ImagenetSettings(num_train=70, num_eval=30))
    assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (70, 30)
    with pytest.raises(ConfigError, match=r"data\.path=DIR"):
        dataset.load("train")


def test_counting_needs_neither_pillow_nor_torch(made: Path) -> None:
    code = (
        "import sys\n"
        "from trainmark.data.datasets import cifar10, imagenet, pacs\n"
        f"dataset = imagenet.Imagenet(imagenet.ImagenetSettings(path={str(made)!r}))\n"
        "assert dataset.num_samples('train') == 30\n"
        "assert not {'PIL', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sample_depends_on_number_kind_and_seed_alone(made: Path) -> None:
    first, again = opened(made).load("train"), opened(made).load("train")
    seen = first.read(7, "crop", 12345)
    assert np.array_equal(seen, again.read(7, "crop", 12345))
    assert not np.array_equal(seen, first.read(7, "crop", 12346))
    assert np.array_equal(first.read(7, "crop", 0), first.read(7, "none", 0))
    assert np.array_equal(first.read(7, "none", 5), first.read(7, "none", 0))
    with Image.open(first.files.path(7)) as one, Image.open(first.files.path(8)) as other:
        assert one.size != other.size


def test_the_evaluation_view_of_a_gradient_is_the_middle_seven_eighths(tmp_path: Path) -> None:
    across, down = np.meshgrid(np.arange(512), np.arange(384))
    pixels = np.stack([across / 2, down / 2, np.full_like(across, 128)], axis=2).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.JPEG", quality=97, subsampling=0)
    seen = StoredImages(files_of(tmp_path, ["a.JPEG"], [0]), 224, 224 / 256).read(0, "none", 0)
    # 7/8 of 384 is 336: from 88 across and 24 down, 1.5 stored pixels to each seen. Values are half the place.
    place = (np.arange(224) + 0.5) * 1.5 - 0.5
    assert np.abs(seen[0].astype(float) - (88 + place)[None, :] / 2).max() < 3
    assert np.abs(seen[1].astype(float) - (24 + place)[:, None] / 2).max() < 3
    assert np.abs(seen[0].mean(axis=0) - (88 + place) / 2).max() < 1
    assert np.abs(seen[2].astype(int) - 128).max() < 3


def test_inputs_are_normalised_with_imagenets_mean_and_deviation(made: Path) -> None:
    split = opened(made).load("train")
    # 255 · (0.485, 0.456, 0.406) and 255 · (0.229, 0.224, 0.225)
    assert split.offset.tolist() == pytest.approx([123.675, 116.28, 103.53])
    assert split.scale.tolist() == pytest.approx([58.395, 57.12, 57.375])


def test_a_png_among_the_jpegs_is_read(tmp_path: Path) -> None:
    picture = draw_picture(figure_of(0), "cartoon", 100, 80, np.random.default_rng(0))
    empty_files(tmp_path, "train/a/1.JPEG val/a/1.JPEG")
    for split in ("train", "val"):
        picture.convert("P").save(tmp_path / split / "a" / "1.JPEG", "PNG")
    assert opened(tmp_path).load("train").read(0, "crop", 1).shape == (3, 64, 64)
    assert list(opened(tmp_path).check()) == []


def test_a_fingerprint_tells_other_names_sizes_and_labels_but_not_another_place(own: Path) -> None:
    first = opened(own).load("train").fingerprint()
    moved = own.rename(own.with_name("moved"))
    assert opened(moved).load("train").fingerprint() == first
    image = next((moved / "train" / "n00000001").iterdir())
    image.write_bytes(image.read_bytes() + b"\0")
    longer = opened(moved).load("train").fingerprint()
    image.rename(image.with_name("other.JPEG"))
    renamed = opened(moved).load("train").fingerprint()
    (moved / "train" / "n00000000").mkdir()  # all labels become one more
    relabelled = opened(moved).load("train").fingerprint()
    assert len({first, longer, renamed, relabelled}) == 4


def test_nothing_is_wrong_with_what_was_made(made: Path) -> None:
    assert list(opened(made).check()) == []


def test_one_check_finds_every_spoilt_file_and_folder(own: Path) -> None:
    train, val = own / "train", own / "val"
    files = sorted((train / "n00000001").iterdir())
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[: len(whole) // 2])
    files[1].write_bytes(b"no image at all")
    files[2].write_bytes(b"")
    other = sorted((train / "n00000002").iterdir())
    intact = other[3].read_bytes()
    other[3].write_bytes(intact[:-3000] + bytes(3000))  # as a crash leaves the last block
    (train / "n00000003").mkdir()
    last = sorted((val / "n00000002").iterdir())[1]
    last.unlink()
    last.symlink_to(own / "gone")
    found = {(problem.file, problem.index): problem.what for problem in opened(own).check()}
    assert set(found) == {
        (str(val / "n00000003"), None),
        (str(train / "n00000003"), None),
        (str(files[0]), 0),
        (str(files[1]), 1),
        (str(files[2]), 2),
        (str(other[3]), 7),
        (str(last), 3),
    }
    assert found[str(train / "n00000003"), None] == "has no images"
    assert found[str(val / "n00000003"), None] == "missing: the other split has this class"
    assert "truncated" in found[str(files[0]), 0]
    assert found[str(files[1]), 1] == "cannot be decoded: not a JPEG or PNG file"
    assert found[str(files[2]), 2] == "cannot be decoded: the file is empty"
    assert found[str(last), 3] == "cannot be decoded: no such file or directory"


def test_reading_a_spoilt_file_names_it_and_the_next_step(own: Path) -> None:
    dataset = opened(own).load("train")
    path = dataset.files.path(5)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=rf"{path} \(sample 5\) cannot be read: .*truncated.*`trainmark data check`"):
        dataset.read(5, "crop", 9)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone/train cannot be listed: no such file or directory"):
        opened(tmp_path / "gone").num_samples("train")
    assert [problem.file for problem in opened(tmp_path / "gone").check()] == [
        str(tmp_path / "gone" / "train"),
        str(tmp_path / "gone" / "val"),
    ]


def test_a_class_that_training_does_not_know_is_refused(tmp_path: Path) -> None:
    empty_files(tmp_path, "train/a/1.JPEG val/a/1.JPEG val/b/1.JPEG")
    with pytest.raises(DataError, match=r"val has the class b, but train/ does not"):
        opened(tmp_path).load("eval")


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train" / "a").mkdir(parents=True)
    with pytest.raises(DataError, match=r"train has no images"):
        opened(tmp_path).num_samples("train")
