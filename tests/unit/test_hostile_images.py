"""A folder of hostile images: every unusable file is named in one pass, refused by a run, or left out on request."""

import os
import socket
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainmark.data.artworks.catalogue import read_catalogue
from trainmark.data.datasets.artworks import Artworks, ArtworksSettings
from trainmark.data.datasets.imagenet import Imagenet, ImagenetSettings
from trainmark.data.images.draw import draw_picture, figure_of
from trainmark.data.images.files import files_of
from trainmark.data.images.headers import Limits
from trainmark.data.images.resized import ResizedImages, Sizing
from trainmark.data.images.shape_cache import read_shapes
from trainmark.data.images.skip_list import write_skip_list
from trainmark.data.images.stored import StoredImages, image_problems
from trainmark.spec.errors import DataError

SHAPE = (150, 200)
LIMITS = Limits(smallest_side=32, max_megapixels=400)


def picture(width: int = SHAPE[1], height: int = SHAPE[0]) -> Image.Image:
    return draw_picture(figure_of(0), "photo", width, height, np.random.default_rng(0))


def stored(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb() -> bytes:
    """A small PNG file that states 60,000 × 60,000 pixels, all of them black."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(10_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def hostile_files() -> dict[str, bytes]:
    whole = stored(picture(), "JPEG")
    frames = [picture(), Image.new("RGB", SHAPE[::-1])]
    animated = {"save_all": True, "append_images": frames[1:]}
    return {
        "a-good.jpg": whole,
        "b-empty.jpg": b"",
        "c-truncated.jpg": whole[: len(whole) // 2],
        "d-zero-tail.jpg": whole[:-3000] + bytes(3000),
        "e-one-pixel.jpg": stored(picture(1, 1), "JPEG"),
        "f-strip.jpg": stored(Image.new("RGB", (20_000, 10)), "JPEG"),
        "g-cmyk.jpg": stored(picture().convert("CMYK"), "JPEG"),
        "h-animated.jpg": stored(frames[0], "GIF", **animated),
        "i-apng.jpg": stored(frames[0], "PNG", **animated),
        "j-really-a-png.jpg": stored(picture(), "PNG"),
        "k-really-a-jpeg.png": whole,
        "l-bomb.jpg": bomb(),
        "m-text.jpg": b"<html>404 Not Found</html>",
        "n-truncated-png.jpg": stored(picture(), "PNG")[:2000],
    }


BAD = {
    "b-empty.jpg": "cannot be decoded: the file is empty",
    "c-truncated.jpg": "cannot be decoded: its end is missing or overwritten",
    "d-zero-tail.jpg": "cannot be decoded: its end is missing or overwritten",
    "e-one-pixel.jpg": "too small: 1 × 1 pixels; sides must be at least 32",
    "f-strip.jpg": "too small: 10 × 20000 pixels; sides must be at least 32",
    "l-bomb.jpg": "too large: 3,600 megapixels; data.max_megapixels is 400",
    "m-text.jpg": "cannot be decoded: not a JPEG, PNG or GIF file",
    "n-truncated-png.jpg": "cannot be decoded: image file is truncated",
}
ANIMATED = {"h-animated.jpg", "i-apng.jpg"}
# No image, and reading some of them would never end.
SPECIAL = ("p-fifo.jpg", "q-socket.jpg", "r-device.jpg", "s-folder.jpg", "t-link-to-fifo.jpg", "u-link-to-nothing.jpg")
BAD |= dict.fromkeys(SPECIAL, "cannot be decoded: not a regular file")
BAD["u-link-to-nothing.jpg"] = "cannot be decoded: no such file or directory"


def write_hostile(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in hostile_files().items():
        (folder / name).write_bytes(content)
    fifo, unix_socket, device, directory, link, dangling = (folder / name for name in SPECIAL)
    os.mkfifo(fifo)
    # The path of a socket may have 107 bytes, fewer than temporary folders have.
    holder = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"/proc/self/fd/{holder}/{unix_socket.name}")
    os.close(holder)
    device.symlink_to("/dev/zero")
    directory.mkdir()
    link.symlink_to(fifo.name)
    dangling.symlink_to("nothing")


def in_class_folders(root: Path) -> Imagenet:
    write_hostile(root / "train" / "paintings")
    (root / "val" / "paintings").mkdir(parents=True)
    (root / "val" / "paintings" / "a-good.jpg").write_bytes(stored(picture(), "JPEG"))
    return Imagenet(ImagenetSettings(path=str(root), resize="none"))


def in_catalogue(root: Path) -> Artworks:
    write_hostile(root / "data")
    (root / "data" / "o-held-out.jpg").write_bytes(stored(picture(), "JPEG"))
    lines = ["Image file,Medium,Museum,Museum-based instance ID,Subset,Width,Height,Product size,Aspect ratio"]
    for name in (*hostile_files(), "o-held-out.jpg", *SPECIAL):
        subset = "val" if name == "o-held-out.jpg" else "train"
        lines.append(f"{name},Bronze,Museum,7,{subset},{SHAPE[1]}.0,{SHAPE[0]}.0,30000.0,1.3333")
    (root / "MAMe_dataset.csv").write_text("\n".join(lines) + "\n")
    (root / "MAMe_labels.csv").write_text("0,Bronze\n")
    return Artworks(ArtworksSettings(path=str(root), input="hr"))


@pytest.fixture(params=[in_class_folders, in_catalogue], ids=["imagenet", "artworks"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "hostile")


def skipping(dataset: Any, listed: Path) -> Any:
    return type(dataset)(dataset.settings.model_copy(update={"skip": str(listed)}))


def test_one_check_names_every_unusable_file_and_why(dataset: Any) -> None:
    found = {Path(problem.file).name: problem for problem in dataset.check()}
    problems = {name: problem for name, problem in found.items() if not problem.is_note}
    assert set(problems) == set(BAD)
    for name, problem in problems.items():
        assert problem.what.startswith(BAD[name]), name
        assert problem.file == str(Path(dataset.settings.path) / problem.name)
    assert {name for name, problem in found.items() if problem.is_note} == ANIMATED
    assert {found[name].what for name in ANIMATED} == {"animated: its first frame is used"}


def test_a_run_is_refused_with_the_first_bad_file_and_the_next_step(dataset: Any) -> None:
    with pytest.raises(DataError) as refused:
        split = dataset.load("train")
        for index in range(len(split)):
            split.read(index, "none", 0)
    message = str(refused.value)
    assert "b-empty.jpg (sample 1) cannot be used: the file is empty." in message
    assert "`trainmark data check`" in message and "--set data.skip=FILE" in message and "\n" not in message


def test_files_that_cannot_be_images_are_refused_before_a_run_starts(dataset: Any) -> None:
    with pytest.raises(DataError, match=r"b-empty\.jpg \(sample 1\) cannot be used: the file is empty"):
        dataset.prepare()
        dataset.load("train")  # imagenet keeps shapes if it has a folder for them, and reads them here if not


@pytest.mark.parametrize("name", ["missing.jpg", *SPECIAL])
def test_artworks_are_checked_by_their_metadata_alone(name: str, tmp_path: Path) -> None:
    whole = in_catalogue(tmp_path / "hostile")
    listed = tmp_path / "others.txt"
    names = [artwork.name for artwork in read_catalogue(tmp_path / "hostile", {"Bronze": 0}, frozenset()).artworks]
    write_skip_list(listed, [each for each in names if not each.endswith(name) and "held-out" not in each])
    if name == "missing.jpg":
        with (tmp_path / "hostile" / "MAMe_dataset.csv").open("a") as catalogue:
            catalogue.write("missing.jpg,Bronze,Museum,7,train,200.0,150.0,30000.0,1.3333\n")
    why = BAD.get(name, "no such file or directory").removeprefix("cannot be decoded: ")
    with pytest.raises(DataError, match=rf"{name} \(sample 0\) cannot be used: {why}"):
        skipping(whole, listed).prepare()


def test_exactly_the_listed_files_are_left_out(dataset: Any, tmp_path: Path) -> None:
    listed = tmp_path / "bad.txt"
    assert write_skip_list(listed, [problem.name for problem in dataset.check() if not problem.is_note]) == len(BAD)
    rest = skipping(dataset, listed)
    usable = len(set(hostile_files()) - set(BAD))
    assert (rest.num_samples("train"), rest.num_samples("eval"), rest.num_skipped) == (usable, 1, len(BAD))
    assert all(problem.is_note for problem in rest.check())
    split = rest.load("train")
    assert {Path(split.files.name(index)).name for index in range(len(split))} == set(hostile_files()) - set(BAD)
    for index in range(len(split)):
        assert split.read(index, "none", 0).shape == (3, *SHAPE)


def test_colours_and_first_frames_of_usable_files_are_those_of_the_picture(dataset: Any, tmp_path: Path) -> None:
    write_skip_list(tmp_path / "bad.txt", [problem.name for problem in dataset.check() if not problem.is_note])
    split = skipping(dataset, tmp_path / "bad.txt").load("train")
    expected = np.asarray(picture()).transpose(2, 0, 1).astype(int)
    for index in range(len(split)):
        # JPEG and palettes of 256 colours change values, but little on average.
        assert np.abs(split.read(index, "none", 0) - expected).mean() < 12, split.files.name(index)


def test_a_name_with_a_line_break_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line break"):
        write_skip_list(tmp_path / "bad.txt", ["data/two\nlines.jpg"])
    assert not (tmp_path / "bad.txt").exists()


@pytest.mark.parametrize("name", SPECIAL)
def test_what_is_no_regular_file_is_refused_at_once_by_every_reader(name: str, tmp_path: Path) -> None:
    write_hostile(tmp_path / "paintings")
    files = files_of(tmp_path, [f"paintings/{name}"], [0])
    readers: list[Any] = [
        lambda: StoredImages(files, 32, 0.875).raw(0),
        lambda: ResizedImages(files, np.array([SHAPE]), Sizing(), LIMITS).raw(0),
        lambda: read_shapes(files, Sizing(), LIMITS),
        files.fingerprint,
    ]
    for read in readers:
        with pytest.raises(DataError, match=BAD[name].removeprefix("cannot be decoded: ")):
            read()
    (problem,) = image_problems(files)  # of images that are cropped to one size
    assert problem.what == BAD[name]
