"""ResizedImages: a split of image files of any size and shape, resized by rule when they are read."""

from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from stat import S_ISREG
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError, check_end, explained
from trainmark.data.images.decoders import Pixels, decode_image, fastest_library
from trainmark.data.images.files import ImageFiles, open_regular, reason_of
from trainmark.data.images.headers import QUARTER_TURNS, Limits, open_image, orientation_of, seen_shape, upright
from trainmark.data.images.stored import DEVIATION, MEAN
from trainmark.data.images.views import DECODING_SHRINKS
from trainmark.data.split import Raw
from trainmark.spec.errors import DataError
from trainmark.spec.units import show_shape

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

HOW_TO_SKIP = (
    "List every bad file with `trainmark data check`; --skip-list FILE writes their names, and --set data.skip=FILE "
    "leaves them out."
)


@dataclass(frozen=True)
class Sizing:
    """What size images are given: as they are, squashed to a square, or with a shorter side of `side` pixels."""

    side: int | None = None
    keeps_aspect: bool = True

    @property
    def fixed_shape(self) -> tuple[int, int] | None:
        """Height and width of all images, if they are the same."""
        return (self.side, self.side) if self.side is not None and not self.keeps_aspect else None

    def seen(self, shapes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Height and width that the model sees of images of these heights and widths, (n, 2)."""
        if self.side is None:
            return shapes
        if not self.keeps_aspect:
            return np.full_like(shapes, self.side)
        seen: NDArray[np.int64] = np.rint(shapes * (self.side / shapes.min(axis=1, keepdims=True))).astype(np.int64)
        return seen

    def seen_of(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Height and width that the model sees of one image."""
        height, width = self.seen(np.array([shape], np.int64))[0].tolist()
        return height, width


@dataclass(frozen=True, eq=False)
class ResizedImages:
    """Colour images whose heights and widths are known before any file is opened."""

    files: ImageFiles
    stated: NDArray[np.int64]  # height and width of every file, upright
    sizing: Sizing
    limits: Limits

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class number of every image."""
        return self.files.labels

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        """Channels, and height and width, or their medians."""
        return (3, *(self.sizing.fixed_shape or median_shape(self.sizing.seen(self.stated))))

    @cached_property
    def shapes(self) -> NDArray[np.int64] | None:
        """Height and width of every image as the model sees it; None: all are the same."""
        return None if self.sizing.fixed_shape else self.sizing.seen(self.stated)

    @property
    def decoder(self) -> str:
        """The library that decodes JPEG files."""
        return fastest_library()

    @property
    def offset(self) -> NDArray[np.float32]:
        """The mean of each channel."""
        return MEAN

    @property
    def scale(self) -> NDArray[np.float32]:
        """The standard deviation of each channel."""
        return DEVIATION

    def __len__(self) -> int:
        return len(self.files)

    def size_bytes(self, index: int) -> int:
        """The size of an image's file."""
        return int(self.files.sizes_bytes[index])

    def raw(self, index: int) -> bytes:
        """The content of an image's file."""
        try:
            with open_regular(self.files.path(index)) as file:
                return file.read()
        except OSError as error:
            raise self._unusable(index, reason_of(error)) from error

    def decode(self, raw: Raw, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """Decodes an image, 3 × height × width, channels last in memory; there is no augmentation."""
        assert augmentation == "none", augmentation
        height, width = self.stated[index].tolist()
        try:
            return decode_resized(bytes(raw), (height, width), self.sizing, self.limits)
        except UnreadableImageError as error:
            raise self._unusable(index, error) from error

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """Reads and decodes image `index`."""
        return self.decode(self.raw(index), index, augmentation, seed)

    def fingerprint(self) -> str:
        """A checksum of all names, sizes and labels, and of the bytes of some files."""
        return self.files.fingerprint()

    def within_limits(self) -> "ResizedImages":
        """These images; raises with the first that is too small or too large, whoever read their shapes."""
        for index, shapes in enumerate(zip(self.stated.tolist(), self.sizing.seen(self.stated).tolist(), strict=True)):
            if fault := self.limits.fault(*shapes):
                raise self._unusable(index, fault)
        return self

    def check_files(self) -> None:
        """Raises with the first that is missing, empty or no regular file; no file is opened."""
        for index in range(len(self)):
            try:
                found = self.files.path(index).stat()
            except OSError as error:
                raise self._unusable(index, reason_of(error)) from error
            if not S_ISREG(found.st_mode) or not found.st_size:
                raise self._unusable(index, "the file is empty" if S_ISREG(found.st_mode) else "not a regular file")

    def _unusable(self, index: int, reason: object) -> DataError:
        return DataError(f"{self.files.path(index)} (sample {index}) cannot be used: {reason}. {HOW_TO_SKIP}")


def median_shape(shapes: NDArray[np.int64]) -> tuple[int, int]:
    """The medians of height and width."""
    height, width = np.median(shapes, axis=0).astype(int).tolist()
    return height, width


def decode_resized(
    content: bytes, stated: tuple[int, int] | None, sizing: Sizing, limits: Limits, library: str | None = None
) -> NDArray[np.uint8]:
    """Decodes an image, upright and resized; raises UnreadableImageError if it is unusable or of another size."""
    image = open_image(BytesIO(content))
    shape = seen_shape(image)
    seen = sizing.seen_of(shape)
    if fault := limits.fault(shape, seen):
        raise UnreadableImageError(fault)
    if stated is not None and stated != shape:
        raise UnreadableImageError(f"it is {show_shape(shape)} pixels, but {show_shape(stated)} are stated")
    if image.format == "JPEG":
        check_end(content)
    orientation = orientation_of(image)
    pixels = _resized(image, content, seen[::-1] if orientation in QUARTER_TURNS else seen, library)
    return upright(pixels, orientation).transpose(2, 0, 1)


def _resized(image: "ImageFile", content: bytes, target: tuple[int, int], library: str | None) -> Pixels:
    """The pixels of an opened image, resized to `target` height and width, as stored (not turned upright)."""
    from PIL import Image

    height, width = image.height, image.width
    shrinks = DECODING_SHRINKS if image.format == "JPEG" else ()
    shrink = next((each for each in shrinks if height >= each * target[0] and width >= each * target[1]), 1)
    pixels = decode_image(image, content, shrink, library or fastest_library())
    if pixels.shape[:2] == target:
        return pixels
    if pixels.shape[:2] == (height, width):
        shrink = 1
    corners = (0, 0, width / shrink, height / shrink)  # without the part of a pixel that decoding rounds up to
    with explained():
        return np.asarray(Image.fromarray(pixels).resize(target[::-1], Image.Resampling.BILINEAR, box=corners))
