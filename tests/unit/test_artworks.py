"""Artworks in MAMe's layout: made, listed in a catalogue, read at three resolutions, with the paper's shapes."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainmark.data.artworks.shapes import artwork_shapes
from trainmark.data.datasets.artworks import MEDIUMS, Artworks, ArtworksSettings
from trainmark.data.images.resized import Sizing
from trainmark.spec.errors import ConfigError, DataError

SMALL: dict[str, Any] = {"num_train": 24, "num_eval": 9, "num_classes": 3, "mean_megapixels": 0.05}


def unwatched(made: int, total: int) -> None:
    pass


def opened(folder: Path, **settings: Any) -> Artworks:
    return Artworks(ArtworksSettings(path=str(folder), **settings))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "mame"
    Artworks(ArtworksSettings(**SMALL)).make(folder, unwatched)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A dataset to be spoilt."""
    few = {**SMALL, "num_train": 6, "num_eval": 3}
    Artworks(ArtworksSettings(**few)).make(tmp_path / "own", unwatched)
    return tmp_path / "own"


def change_lines(folder: Path, changes: dict[int, str]) -> None:
    """Replaces lines of the catalogue, which are numbered from 1."""
    path = folder / "MAMe_dataset.csv"
    lines = path.read_text().splitlines()
    for number, line in changes.items():
        lines[number - 1 : number] = [line]
    path.write_text("\n".join(lines) + "\n")


def per_batch(shapes: np.ndarray, batch: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Informative and total pixels of random batches, padded to the largest height and width."""
    rows = random.permutation(len(shapes))[: len(shapes) // batch * batch].reshape(-1, batch)
    batches = shapes[rows]
    return batches.prod(axis=2).sum(axis=1), batches.max(axis=1).prod(axis=1) * batch


def test_random_batches_of_generated_shapes_pad_as_much_as_the_papers_table_1() -> None:
    random = np.random.default_rng(1)
    shapes = artwork_shapes(20_300, 6.6, random)
    informative, total = per_batch(Sizing(500).seen(shapes), 32, random)
    # 634 batches: total/informative varies by 0.75 between batches, so by 0.03 in the mean; 46.8 / 11.5 = 4.07.
    assert total.sum() / informative.sum() == pytest.approx(4.07, abs=0.1)
    assert informative.mean() / 1e6 == pytest.approx(11.5, abs=0.4)
    informative, total = per_batch(shapes, 4, random)
    # 5,075 batches that vary by 0.4; 61.5 / 34.6 = 1.78.
    assert total.sum() / informative.sum() == pytest.approx(1.78, abs=0.03)


def test_shapes_have_the_mean_size_and_the_spread_that_are_asked_for() -> None:
    shapes = artwork_shapes(100_000, 6.6, np.random.default_rng(2))
    megapixels, aspect = shapes.prod(axis=1) / 1e6, np.log(shapes[:, 0] / shapes[:, 1])
    assert megapixels.mean() == pytest.approx(6.6, abs=0.03)
    assert np.log(megapixels).std() == pytest.approx(0.44, abs=0.005)
    assert aspect.mean() == pytest.approx(0.057, abs=0.005) and aspect.std() == pytest.approx(0.42, abs=0.005)
    assert np.abs(aspect - 0.057).max() <= 4 * 0.42 + 0.01  # rounded to pixels
    first = artwork_shapes(10, 6.6, np.random.default_rng(2))
    assert np.array_equal(first, shapes[:10])


def test_what_is_made_has_mames_layout(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == ["MAMe_dataset.csv", "MAMe_labels.csv", "data"]
    assert (made / "MAMe_labels.csv").read_text() == "0,Albumen photograph\n1,Bronze\n2,Ceramic\n"
    lines = (made / "MAMe_dataset.csv").read_text().splitlines()
    assert lines[0] == (
        "Image file,Medium,Museum,Museum-based instance ID,Subset,Width,Height,Product size,Aspect ratio"
    )
    rows = list(csv.DictReader(lines))
    assert len(rows) == 24 + 9 and [row["Subset"] for row in rows] == ["train"] * 24 + ["val"] * 9
    for row in rows:
        width, height = float(row["Width"]), float(row["Height"])
        assert row["Width"].endswith(".0") and "," in row["Museum-based instance ID"]
        assert float(row["Product size"]) == width * height
        assert float(row["Aspect ratio"]) == pytest.approx(width / height, abs=1e-4)
        with Image.open(made / "data" / row["Image file"]) as image:
            assert image.format == "JPEG" and image.size == (width, height)


def test_the_29_mediums_are_mames_in_its_order() -> None:
    assert len(MEDIUMS) == 29 and list(MEDIUMS) == sorted(MEDIUMS) and MEDIUMS[17] == "Oil on canvas"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"input": "lr"}, lambda height, width: (256, 256)),
        ({"input": "lr", "side": 40}, lambda height, width: (40, 40)),
        ({"input": "hr"}, lambda height, width: (height, width)),
        (
            {"input": "mr", "side": 60},
            lambda height, width: (
                (60, round(60 * width / height)) if height < width else (round(60 * height / width), 60)
            ),
        ),
    ],
)
def test_images_are_seen_at_the_chosen_resolution(made: Path, settings: dict[str, Any], expected: Any) -> None:
    dataset = opened(made, **settings)
    split = dataset.load("train")
    rows = [row for row in csv.DictReader((made / "MAMe_dataset.csv").open()) if row["Subset"] == "train"]
    shapes = [expected(int(float(row["Height"])), int(float(row["Width"]))) for row in rows]
    for index, shape in enumerate(shapes):
        sample = split.read(index, "none", 0)
        assert sample.shape == (3, *shape) and sample.dtype == np.uint8
    if settings["input"] == "lr":
        assert split.shapes is None and not dataset.variable_shape and split.sample_shape == (3, *shapes[0])
    else:
        assert split.shapes is not None and split.shapes.tolist() == [list(shape) for shape in shapes]
        assert dataset.variable_shape
        assert split.sample_shape == (3, *np.median(shapes, axis=0).astype(int))


def test_a_shorter_side_of_500_keeps_the_aspect_and_rounds_the_longer_one() -> None:
    # 1000 × 2000 becomes 500 × 1000, as the paper says; 333 × 1000 becomes 500 × 1501.5.
    shapes = np.array([[1000, 2000], [2000, 1000], [333, 1000], [400, 400]])
    assert Sizing(500).seen(shapes).tolist() == [[500, 1000], [1000, 500], [500, 1502], [500, 500]]


def test_val_is_held_out_and_test_is_not_used(own: Path) -> None:
    line = (own / "MAMe_dataset.csv").read_text().splitlines()[1]
    change_lines(own, {2: line.replace(",train,", ",test,")})
    dataset = opened(own)
    assert (dataset.num_samples("train"), dataset.num_samples("eval"), dataset.num_classes) == (5, 3, 3)
    assert dataset.load("eval").labels.tolist() == [0, 1, 2]
    assert dataset.load("train").files.name(0) == "data/1000001.jpg"


def test_a_class_can_be_told_from_its_pictures(made: Path) -> None:
    def colours(split: Any) -> np.ndarray:
        middles = np.stack([split.read(index, "none", 0)[:, 24:40, 24:40] for index in range(len(split))])
        return middles.mean(axis=(2, 3))

    dataset = opened(made, side=64)
    train, held_out = dataset.load("train"), dataset.load("eval")
    known = np.stack([colours(train)[train.labels == label].mean(axis=0) for label in range(3)])
    nearest = np.linalg.norm(colours(held_out)[:, None] - known, axis=2).argmin(axis=1)
    assert np.mean(nearest == held_out.labels) > 0.6  # by chance a third


def test_shapes_are_known_before_anything_is_made() -> None:
    dataset = Artworks(ArtworksSettings(input="mr", side=48, num_train=2000))
    assert dataset.sample_shape is not None and dataset.sample_shape[2] == 48 and 48 < dataset.sample_shape[1] < 60
    assert Artworks(ArtworksSettings()).sample_shape == (3, 256, 256)
    assert Artworks(ArtworksSettings(input="hr", path="/nowhere")).sample_shape is None


def test_a_side_of_images_that_are_left_as_they_are_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.input=hr leaves images as they are"):
        Artworks(ArtworksSettings(input="hr", side=300))


def test_every_line_of_the_catalogue_that_is_wrong_is_named(own: Path) -> None:
    rest = "Bronze,x,y,train,100.0,100.0,10000.0,1.0"
    change_lines(
        own,
        {
            2: "1000000.jpg,Bronze",
            3: "1000001.jpg,Chewing gum,x,y,train,100.0,100.0,10000.0,1.0",
            4: "1000002.jpg,Bronze,x,y,training,100.0,100.0,10000.0,1.0",
            5: "1000003.jpg,Bronze,x,y,train,100.5,wide,10000.0,1.0",
            6: f"../secret.jpg,{rest}",
            8: f"2000001.jpg,{rest}",
            9: f"2000001.jpg,{rest}",
            10: 'gone.jpg,Bronze,x,"two, with a comma",val,100.0,100.0,10000.0,1.0',
        },
    )
    dataset = opened(own)
    found = {problem.index: problem.what for problem in dataset.check() if problem.file.endswith(".csv")}
    assert found == {
        1: "line 2 has not as many values as the first one",
        2: "line 3 has the medium 'Chewing gum', which MAMe_labels.csv does not",
        3: "line 4 has the subset 'training', which is none of train, val, test",
        4: "line 5 has the width '100.5' and the height 'wide', which are no numbers of pixels",
        5: "line 6 names '../secret.jpg', which is no name of a file",
        8: "line 9 names 2000001.jpg, which an earlier line does as well",
    }
    others = {problem.name: problem.what for problem in dataset.check() if not problem.file.endswith(".csv")}
    assert others["data/gone.jpg"] == "cannot be decoded: no such file or directory"
    listed = {problem.name for problem in dataset.check() if problem.index == 8}
    assert listed == {None}  # the image of the earlier line stays usable
    with pytest.raises(DataError, match=r"MAMe_dataset\.csv: line 2 has not as many .*`trainmark data check` lists"):
        dataset.num_samples("train")


def test_spaces_around_values_do_not_matter(own: Path) -> None:
    line = (own / "MAMe_dataset.csv").read_text().splitlines()[2]
    change_lines(own, {3: line.replace(",Bronze,", ",Bronze ,")})  # as MAMe's own 'Woven fabric '
    assert list(opened(own).check()) == [] and opened(own).load("train").labels.tolist() == [0, 1, 2] * 2


def test_a_folder_without_a_catalogue_and_one_without_columns_are_told(tmp_path: Path) -> None:
    assert [problem.what for problem in opened(tmp_path).check()] == [
        "cannot be read: no such file or directory",
        "cannot be read: no such file or directory",
        "has no images in the subset 'train'",
        "has no images in the subset 'val'",
    ]
    (tmp_path / "MAMe_labels.csv").write_text("0,Bronze\n2,Glass\nClay\n")
    (tmp_path / "MAMe_dataset.csv").write_text("file,class\n")
    assert [problem.what for problem in opened(tmp_path).check()][:2] == [
        "line 3 is not 'number,medium', each once: ['Clay']",
        "has no column 'Image file' in its first line",
    ]
    (tmp_path / "MAMe_labels.csv").write_text("0,Bronze\n2,Glass\n")
    with pytest.raises(DataError, match="its numbers are not 0 to 1, each once"):
        _ = opened(tmp_path).num_classes


def test_an_image_of_another_size_than_stated_is_named_with_both(own: Path) -> None:
    Image.new("RGB", (50, 40)).save(own / "data" / "1000003.jpg")
    dataset = opened(own)
    stated = " × ".join(map(str, dataset.load("train").stated[3]))
    message = f"it is 40 × 50 pixels, but {stated} are stated"
    assert [problem.what for problem in dataset.check()] == [f"cannot be decoded: {message}"]
    with pytest.raises(DataError, match=rf"1000003\.jpg \(sample 3\) cannot be used: {message}"):
        dataset.load("train").read(3, "none", 0)


def test_names_in_the_skip_list_are_left_out_and_counted(own: Path, tmp_path: Path) -> None:
    whole = opened(own).load("train")
    listed = tmp_path / "bad.txt"
    listed.write_bytes(b"data/1000001.jpg\r\ndata/2000000.jpg\ndata/no-such-file.jpg\n")  # one as Windows writes it
    dataset = opened(own, skip=str(listed))
    assert (dataset.num_samples("train"), dataset.num_samples("eval"), dataset.num_skipped) == (5, 2, 2)
    rest = dataset.load("train")
    assert rest.files.names.tolist() == [*whole.files.names[:1].tolist(), *whole.files.names[2:].tolist()]
    assert rest.fingerprint() != whole.fingerprint()
    assert np.array_equal(rest.read(1, "none", 0), whole.read(2, "none", 0))


def test_lines_of_a_skipped_image_may_be_wrong(own: Path, tmp_path: Path) -> None:
    change_lines(own, {3: "1000001.jpg,Chewing gum,x,y,train,100.0,100.0,10000.0,1.0"})
    (bad,) = opened(own).check()
    assert bad.name == "data/1000001.jpg"
    (tmp_path / "bad.txt").write_text(f"{bad.name}\n")
    dataset = opened(own, skip=str(tmp_path / "bad.txt"))
    assert list(dataset.check()) == [] and dataset.num_samples("train") == 5 and dataset.num_skipped == 1


def test_a_skip_list_that_is_not_there_is_told(own: Path) -> None:
    with pytest.raises(DataError, match=r"/nowhere/bad\.txt, the list of files to leave out, cannot be read: no such"):
        opened(own, skip="/nowhere/bad.txt").num_samples("train")
