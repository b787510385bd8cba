"""PACS: its domains and classes, how they are split, and what a check finds."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trainmark.data.datasets.pacs import CLASSES, DOMAINS, Pacs, PacsSettings
from trainmark.data.images.files import held_out_counts, hold_out
from trainmark.spec.errors import ConfigError, DataError


def unwatched(made: int, total: int) -> None:
    pass


def opened(folder: Path, **settings: Any) -> Pacs:
    return Pacs(PacsSettings(path=str(folder), **settings))


def empty_images(folder: Path, domain: str, count: int) -> None:
    """So many files of no content in a domain, shared out to its classes."""
    for name in CLASSES:
        (folder / domain / name).mkdir(parents=True)
    for index in range(count):
        (folder / domain / CLASSES[index % 7] / f"pic_{index}.jpg").touch()


def names_of(dataset: Pacs, split: Any) -> set[bytes]:
    return set(dataset.load(split).files.names.tolist())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    Pacs(PacsSettings(num_train=42, num_eval=21)).make(tmp_path, unwatched)
    return tmp_path


def test_without_lists_605_of_6049_are_held_out_and_3942_sketches_test(tmp_path: Path) -> None:
    for domain, count in (("art_painting", 2043), ("cartoon", 2340), ("photo", 1666), ("sketch", 3942)):
        empty_images(tmp_path, domain, count)
    dataset = opened(tmp_path)
    assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (5444, 605)
    assert opened(tmp_path, eval_domain="sketch").num_samples("eval") == 3942
    train, held_out = names_of(dataset, "train"), names_of(dataset, "eval")
    assert len(train) == 5444 and len(held_out) == 605 and not train & held_out
    # A tenth of each: of 2,340 / 7 = 334.3 cartoons of dogs 33 or 34.
    assert sum(name.startswith(b"cartoon/dog/") for name in held_out) in (33, 34)
    assert names_of(opened(tmp_path), "train") == train
    assert names_of(opened(tmp_path, seed=2), "train") != train


@given(st.lists(st.integers(0, 500), min_size=1, max_size=21), st.integers(0, 9))
def test_every_group_gives_its_share_and_the_sum_is_rounded_once(sizes: list[int], seed: int) -> None:
    share = Fraction(605, 6049)
    counts = held_out_counts(sizes, share)
    assert sum(counts) == round(sum(sizes) * share)
    assert all(abs(count - size * share) < 1 for count, size in zip(counts, sizes, strict=True))
    masks = hold_out(sizes, share, seed)
    assert [int(mask.sum()) for mask in masks] == counts
    assert [len(mask) for mask in masks] == sizes


def test_what_is_made_has_pacs_layout_and_is_read_back(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir() if path.is_dir()) == [*DOMAINS, "sketch"]
    assert sorted(path.name for path in made.glob("*.txt")) == [
        "art_painting_crossval_kfold.txt",
        "art_painting_train_kfold.txt",
        "cartoon_crossval_kfold.txt",
        "cartoon_train_kfold.txt",
        "photo_crossval_kfold.txt",
        "photo_train_kfold.txt",
    ]
    train, held_out = opened(made).load("train"), opened(made).load("eval")
    sketches = opened(made, eval_domain="sketch").load("eval")
    assert (len(train), len(held_out), len(sketches)) == (42, 21, 21)
    # 42 pictures go through 7 classes and 3 domains twice.
    assert np.bincount(train.labels).tolist() == [6] * 7
    for split in (train, held_out, sketches):
        for index in range(len(split)):
            assert CLASSES[split.labels[index]] == split.files.path(index).parent.name
            assert split.read(index, "crop-colour", index + 1).shape == (3, 224, 224)
    with Image.open(train.files.path(0)) as picture, Image.open(sketches.files.path(0)) as sketch:
        assert picture.size == sketch.size == (227, 227)
        assert (picture.format, sketch.format) == ("JPEG", "PNG")
    assert list(opened(made).check()) == []


def test_evaluation_sees_the_whole_picture(made: Path) -> None:
    split = opened(made, image_size=227).load("train")
    with Image.open(split.files.path(3)) as picture:
        assert np.array_equal(split.read(3, "none", 0), np.asarray(picture).transpose(2, 0, 1))


def test_the_same_seed_gives_the_same_change_of_colours(made: Path) -> None:
    split = opened(made).load("train")
    assert np.array_equal(split.read(4, "crop-colour", 77), split.read(4, "crop-colour", 77))
    assert not np.array_equal(split.read(4, "crop-colour", 77), split.read(4, "crop-colour", 78))
    assert np.array_equal(split.read(4, "crop-colour", 0), split.read(4, "none", 0))


def test_lists_decide_what_trains(made: Path) -> None:
    for domain in DOMAINS:
        (made / f"{domain}_train_kfold.txt").write_text("")
        (made / f"{domain}_crossval_kfold.txt").write_text("")
    (made / "photo_train_kfold.txt").write_text("photo/horse/b.jpg 5\nphoto/dog/a b.jpg 1\n\n")
    (made / "cartoon_crossval_kfold.txt").write_text("cartoon/person/c.png 7\n")
    dataset = opened(made)
    assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (2, 1)
    assert dataset.load("train").labels.tolist() == [4, 0]
    assert dataset.load("train").files.path(1) == made / "photo" / "dog" / "a b.jpg"
    assert dataset.load("eval").labels.tolist() == [6]


def test_wrong_lines_are_refused_and_a_check_lists_them_all(made: Path) -> None:
    wrong = made / "photo_train_kfold.txt"
    wrong.write_text(
        "photo/dog/a.jpg\nphoto/dog/a.jpg one\nphoto/cat/a.jpg 1\ncartoon/dog/a.jpg 1\nphoto/dog/../a.jpg 1\n"
        "photo/horse/a.jpg 4\n"
    )
    with pytest.raises(DataError, match=r"photo_train_kfold\.txt: line 1 is not 'photo/class/image number'"):
        opened(made).load("train")
    found = [(problem.index, problem.what) for problem in opened(made).check() if problem.file == str(wrong)]
    assert [index for index, _ in found] == [0, 1, 2, 3, 4, 5]
    assert found[2][1] == "line 3 is not an image of photo: 'photo/cat/a.jpg'"
    assert found[5][1] == "line 6 gives horse the number 4, but its number is 5"


def test_one_check_finds_every_spoilt_file_and_list(made: Path) -> None:
    train = opened(made).load("train").files
    held_out = opened(made).load("eval").files
    sketches = opened(made, eval_domain="sketch").load("eval").files
    train.path(3).write_bytes(train.path(3).read_bytes()[:2000])
    held_out.path(5).unlink()
    sketches.path(20).write_bytes(sketches.path(20).read_bytes()[:200])
    (made / "art_painting_train_kfold.txt").open("a").write(f"{held_out.names[0].decode()} 1\n")
    found = {(problem.file, problem.index): problem.what for problem in opened(made).check()}
    assert set(found) == {
        (str(train.path(3)), 3),
        (str(held_out.path(0)), 0),
        (str(held_out.path(5)), 5),
        (str(sketches.path(20)), 20),
    }
    assert found[str(held_out.path(0)), 0] == "held out, but also listed for training"
    (made / "cartoon_train_kfold.txt").unlink()
    problems = list(opened(made).check())
    assert (str(made / "cartoon_train_kfold.txt"), "missing: other lists of this kind exist") in [
        (problem.file, problem.what) for problem in problems
    ]
    with pytest.raises(DataError, match=r"cartoon_train_kfold\.txt is missing, but other lists exist"):
        opened(made).load("train")


def test_a_check_without_lists_finds_spoilt_files_by_their_number_in_the_split(made: Path) -> None:
    for path in made.glob("*.txt"):
        path.unlink()
    files = opened(made).load("eval").files
    files.path(2).write_bytes(b"")
    (problem,) = opened(made).check()
    assert (problem.file, problem.index) == (str(files.path(2)), 2)


def test_missing_and_empty_folders_are_found(tmp_path: Path) -> None:
    for domain in (*DOMAINS, "sketch"):
        empty_images(tmp_path, domain, 7)
    (tmp_path / "photo" / "house" / "pic_5.jpg").unlink()
    (tmp_path / "sketch" / "dog" / "pic_0.jpg").unlink()
    (tmp_path / "sketch" / "dog").rmdir()
    problems = list(opened(tmp_path).check())
    assert [(problem.file, problem.what) for problem in problems if problem.index is None] == [
        (str(tmp_path / "photo" / "house"), "has no images"),
        (str(tmp_path / "sketch" / "dog"), "cannot be listed: no such file or directory"),
    ]
    # 28 files of no content, less the two removed
    assert sum(problem.what == "cannot be decoded: the file is empty" for problem in problems) == 26


def test_too_few_pictures_to_fill_the_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Raise num_train and num_eval"):
        Pacs(PacsSettings(num_train=10, num_eval=7)).make(tmp_path, unwatched)


def test_without_a_folder_it_counts_what_would_be_made() -> None:
    dataset = Pacs(PacsSettings(num_train=70, num_eval=30))
    assert (dataset.num_samples("train"), dataset.num_samples("eval")) == (70, 30)
    with pytest.raises(ConfigError, match=r"data\.path=DIR"):
        dataset.load("train")
