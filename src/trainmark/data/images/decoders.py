"""JPEG decoders: the fastest library that is installed, and Pillow for everything that it cannot decode."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import explained

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

Pixels = NDArray[np.uint8]  # height × width × 3
# Content, by what height and width are divided (1, 2, 4 or 8), and the result's height and width, rounded up.
Decode = Callable[[bytes, int, tuple[int, int]], Pixels]


class Decoder(NamedTuple):
    """A library that decodes grey and colour JPEG files."""

    decode: Decode
    can_shrink: bool  # while decoding, by dropping high frequencies


def _simplejpeg() -> Decoder:
    from simplejpeg import decode_jpeg

    def decode(content: bytes, shrink: int, size: tuple[int, int]) -> Pixels:
        found: Pixels = decode_jpeg(content, "RGB", min_height=size[0], min_width=size[1])
        return found

    return Decoder(decode, can_shrink=True)


def _imagecodecs() -> Decoder:
    from imagecodecs import jpeg8_decode

    def decode(content: bytes, shrink: int, size: tuple[int, int]) -> Pixels:
        found: Pixels = jpeg8_decode(content, outcolorspace="RGB")
        return found

    return Decoder(decode, can_shrink=False)


def _opencv() -> Decoder:
    import cv2

    cv2.setNumThreads(1)  # readers are processes of their own
    flags = {1: cv2.IMREAD_COLOR}
    flags |= {shrink: getattr(cv2, f"IMREAD_REDUCED_COLOR_{shrink}") for shrink in (2, 4, 8)}

    def decode(content: bytes, shrink: int, size: tuple[int, int]) -> Pixels:
        found = cv2.imdecode(np.frombuffer(content, np.uint8), flags[shrink] | cv2.IMREAD_IGNORE_ORIENTATION)
        return np.asarray(cv2.cvtColor(found, cv2.COLOR_BGR2RGB), np.uint8)

    return Decoder(decode, can_shrink=True)


# Fastest first. Pillow, which is always installed, needs about 1.4 times as long.
LIBRARIES: dict[str, Callable[[], Decoder]] = {
    "simplejpeg": _simplejpeg,
    "imagecodecs": _imagecodecs,
    "OpenCV": _opencv,
}
PILLOW = "Pillow"


@cache
def find_decoder(name: str) -> Decoder | None:
    """The library of that name; None if it is not installed."""
    try:
        return LIBRARIES[name]()
    except (ImportError, AttributeError, OSError):  # not installed, an unlike version, or a library it needs is missing
        return None


@cache
def fastest_library() -> str:
    """The name of the library that decodes JPEG files in this Python."""
    return next((name for name in LIBRARIES if find_decoder(name) is not None), PILLOW)


def decode_image(image: "ImageFile", content: bytes, shrink: int, library: str) -> Pixels:
    """The pixels of an opened image as RGB, as stored (not turned upright), JPEG shrunk while decoding."""
    decoder = find_decoder(library) if library in LIBRARIES and image.format == "JPEG" else None
    if decoder is not None and image.mode in ("RGB", "L") and (shrink == 1 or decoder.can_shrink):
        size = -(-image.height // shrink), -(-image.width // shrink)
        try:
            pixels = decoder.decode(content, shrink, size)
        except Exception:  # noqa: BLE001  each library has its own errors; Pillow decodes, or says what is wrong
            pixels = None
        if pixels is not None and pixels.shape == (*size, 3):
            return pixels
    with explained():
        if shrink > 1:
            image.draft(None, (image.width // shrink, image.height // shrink))
        return np.asarray(as_rgb(image))


def as_rgb(image: "Image") -> "Image":
    """The image in RGB with 8 bits: 16 bits are scaled, the first frame is taken, transparency is left out."""
    from PIL import Image

    image.load()
    if image.mode.startswith("I"):  # 16 bits of grey; those of colours are scaled by Pillow
        image = Image.fromarray((np.clip(np.asarray(image), 0, 0xFFFF) >> 8).astype(np.uint8))
    if image.mode in ("P", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")  # by way of it, since the colour of a palette may state its own transparency
    return image if image.mode == "RGB" else image.convert("RGB")
