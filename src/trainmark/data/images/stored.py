"""StoredImages: a split whose images are decoded from their files as they are read."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError, decode_view
from trainmark.data.images.files import HOW_TO_FIND_ALL, ImageFiles
from trainmark.data.images.views import View, evaluation_view, random_view
from trainmark.spec.errors import DataError

# Of ImageNet's training images, red, green and blue, as values of 0 … 255: 255 × (0.485, 0.456, 0.406) and
# 255 × (0.229, 0.224, 0.225), which all published recipes use.
MEAN = np.array([123.675, 116.28, 103.53], np.float32)
DEVIATION = np.array([58.395, 57.12, 57.375], np.float32)


@dataclass(frozen=True)
class StoredImages:
    """Square colour images of `image_size` pixels; for evaluation the middle `centre_share` of the shorter side."""

    files: ImageFiles
    image_size: int
    centre_share: float

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class number of every image."""
        return self.files.labels

    @property
    def sample_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return (3, self.image_size, self.image_size)

    @property
    def offset(self) -> NDArray[np.float32]:
        """What is subtracted from each channel."""
        return MEAN

    @property
    def scale(self) -> NDArray[np.float32]:
        """What each channel is then divided by."""
        return DEVIATION

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int, augmentation: str, seed: int) -> NDArray[np.uint8]:
        """Image `index`, changed at random as the kind of augmentation and the seed say; seed 0 leaves it as it is."""
        path = self.files.path(index)
        try:
            return decode_view(path, self.image_size, self._view_chooser(index, augmentation, seed))
        except UnreadableImageError as error:
            raise DataError(f"{path} (sample {index}) cannot be read: {error}. {HOW_TO_FIND_ALL}") from error

    def fingerprint(self) -> str:
        """A checksum of all names, sizes and labels, and of the bytes of some files."""
        return self.files.fingerprint()

    def _view_chooser(self, index: int, augmentation: str, seed: int) -> "partial[View]":
        if augmentation == "none" or seed == 0:
            return partial(evaluation_view, share=self.centre_share)
        return partial(random_view, augmentation, random=np.random.default_rng((seed, index)))
