"""Headers of image files: format, size and orientation, read without decoding; content decides, not the file's name."""

import struct
import warnings
from functools import cache
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError, explained
from trainmark.spec.units import show_shape

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

SIGNATURES = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n", "GIF": b"GIF8"}
LONGEST_SIGNATURE = 8

ORIENTATION = 0x0112  # EXIF's tag
SHORT = 3  # its type: two bytes
QUARTER_TURNS = (5, 6, 7, 8)  # orientations that exchange height and width


class Limits(NamedTuple):
    """Which images are usable, by their size."""

    smallest_side: int
    max_megapixels: float

    def fault(self, shape: tuple[int, int], seen: tuple[int, int]) -> str | None:
        """Why an image of `shape` that the model sees as `seen`, height × width, cannot be used; None if it can."""
        if min(shape) < self.smallest_side:
            return f"too small: {show_shape(shape)} pixels; sides must be at least {self.smallest_side}"
        for what, (height, width) in (("", shape), (" once resized", seen)):
            megapixels = height * width / 1e6
            if megapixels > self.max_megapixels:
                return f"too large: {megapixels:,.0f} megapixels{what}; data.max_megapixels is {self.max_megapixels:g}"
        return None


def open_image(stream: IO[bytes]) -> "ImageFile":
    """Opens a JPEG, PNG or GIF file without reading its pixels.

    Pillow's own limit of pixels, which real artworks exceed, does not apply: check the size before decoding.
    """
    start = stream.read(LONGEST_SIGNATURE)
    stream.seek(0)
    if not start:
        raise UnreadableImageError("the file is empty")
    _ignore_pillows_warnings()
    with explained():
        if start.startswith(SIGNATURES["JPEG"]):
            from PIL.JpegImagePlugin import JpegImageFile

            return JpegImageFile(stream)
        if start.startswith(SIGNATURES["PNG"]):
            from PIL.PngImagePlugin import PngImageFile

            return PngImageFile(stream)
        if start.startswith(SIGNATURES["GIF"]):
            from PIL.GifImagePlugin import GifImageFile

            return GifImageFile(stream)
    raise UnreadableImageError("not a JPEG, PNG or GIF file")


@cache
def _ignore_pillows_warnings() -> None:
    """Once per process: they are of damage that does not matter, such as that of EXIF data; the rest are errors."""
    warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def seen_shape(image: "ImageFile") -> tuple[int, int]:
    """Height and width of an opened image once it is upright."""
    width, height = image.size
    return (width, height) if orientation_of(image) in QUARTER_TURNS else (height, width)


def orientation_of(image: "ImageFile") -> int:
    """EXIF's orientation, from 1 to 8; 1, upright, if the file states none or nonsense."""
    content = image.info.get("exif", b"")
    try:
        return _orientation_in(content.removeprefix(b"Exif\0\0")) if isinstance(content, bytes) else 1
    except struct.error:  # shorter than its own offsets
        return 1


def _orientation_in(content: bytes) -> int:
    """Reads the tag from the first directory; not by Pillow, which warns of damage that does not matter here."""
    order = {b"II": "<", b"MM": ">"}.get(content[:2])
    if order is None:
        return 1
    (directory,) = struct.unpack_from(f"{order}I", content, 4)
    (count,) = struct.unpack_from(f"{order}H", content, directory)
    for entry in range(count):
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", content, directory + 2 + 12 * entry)
        if tag == ORIENTATION:
            return value if kind == SHORT and 1 <= value <= 8 else 1
    return 1


def upright(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Height × width × channels, turned and mirrored as the orientation says."""
    across = pixels.transpose(1, 0, 2) if orientation in QUARTER_TURNS else pixels
    up_down = -1 if orientation in (3, 4, 7, 8) else 1
    left_right = -1 if orientation in (2, 3, 6, 7) else 1
    return across[::up_down, ::left_right]
