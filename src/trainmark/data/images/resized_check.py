"""Checks of image files of any size and shape: everything that training would refuse, and what it would not show."""

from collections.abc import Iterator
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from trainmark.data.images.decode import UnreadableImageError, explained, read_content
from trainmark.data.images.files import ImageFiles
from trainmark.data.images.headers import Limits, open_image
from trainmark.data.images.resized import Sizing, decode_resized
from trainmark.data.images.stored import Finding, inspected
from trainmark.data.split import Problem


def resized_problems(
    files: ImageFiles, stated: NDArray[np.int64] | None, sizing: Sizing, limits: Limits
) -> Iterator[Problem]:
    """Yields a problem for each file that cannot be used, in file order, and a note for each animated one."""

    def inspect(index: int) -> list[Finding]:
        try:
            content = read_content(files.path(index))
            height, width = (0, 0) if stated is None else stated[index].tolist()
            decode_resized(content, None if stated is None else (height, width), sizing, limits)
            return [Finding("animated: its first frame is used", is_note=True)] if _is_animated(content) else []
        except UnreadableImageError as error:
            return [Finding(str(error) if str(error).startswith("too ") else f"cannot be decoded: {error}")]

    return inspected(files, inspect)


def _is_animated(content: bytes) -> bool:
    """Whether the file has several frames."""
    with explained():
        return bool(getattr(open_image(BytesIO(content)), "is_animated", False))
