"""Image files to pixels: JPEG and PNG in any colour space become RGB, decoded no larger than the view needs."""

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.files import open_regular, reason_of
from trainmark.data.images.views import View, change_colours, decoding_shrink
from trainmark.data.split import Raw

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG")  # ImageNet has a PNG among its files called .JPEG
START_OF_SCAN, END_OF_IMAGE = b"\xff\xda", b"\xff\xd9"

# What Pillow raises for corrupt bytes, depending on where they are; none of our own errors.
BAD_BYTES = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error)


class UnreadableImageError(Exception):
    """The file cannot be decoded; the message is the reason."""


def decode_view(content: Raw, size: int, choose_view: Callable[[int, int], View]) -> NDArray[np.uint8]:
    """Decodes the view chosen for the image's width and height, as 3 × size × size, channels last in memory."""
    from PIL.Image import Resampling, Transpose

    image = _open(content)
    view = choose_view(*image.size)
    shrink = decoding_shrink(view.box, size) if image.format == "JPEG" else 1
    box = view.box.shrunk(shrink)
    with explained():
        if shrink > 1:
            image.draft(None, (image.width // shrink, image.height // shrink))
        # Grey stays one channel until it is resized; other colour spaces cannot be interpolated.
        whole = image if image.mode in ("RGB", "L") else image.convert("RGB")
        corners = (box.left, box.top, box.left + box.width, box.top + box.height)
        seen: Image = whole.resize((size, size), Resampling.BILINEAR, box=corners).convert("RGB")
    if view.is_mirrored:
        seen = seen.transpose(Transpose.FLIP_LEFT_RIGHT)
    if view.colours is not None:
        seen = change_colours(seen, view.colours)
    return np.array(seen).transpose(2, 0, 1)


def decode_fully(path: Path) -> None:
    """Decodes the whole file; raises UnreadableImageError if it cannot."""
    content = read_content(path)
    image = _open(content)
    with explained():
        image.load()
    if image.format == "JPEG":
        check_end(content)


def check_end(content: bytes) -> None:
    """Raises if a JPEG file lacks its end: a tail of zeros, as left by crashed file systems, decodes without error."""
    if not content.endswith(END_OF_IMAGE) and content.rfind(END_OF_IMAGE) < content.rfind(START_OF_SCAN):
        raise UnreadableImageError("its end is missing or overwritten")


def read_content(path: Path) -> bytes:
    """The bytes of the file; raises UnreadableImageError if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        raise UnreadableImageError(reason_of(error)) from error


def _open(content: Raw) -> "Image":
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise UnreadableImageError("the file is empty")
    with explained():
        try:
            return Image.open(BytesIO(content), formats=FORMATS)
        except UnidentifiedImageError as error:
            raise UnreadableImageError("not a JPEG or PNG file") from error


@contextmanager
def explained() -> Iterator[None]:
    """Converts Pillow's errors to UnreadableImageError."""
    from PIL.Image import DecompressionBombError

    try:
        yield
    except (*BAD_BYTES, DecompressionBombError) as error:
        raise UnreadableImageError(str(error) or type(error).__name__) from error
