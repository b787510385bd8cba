"""What is wrong with image files and their folders, all of it in one pass."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainmark.data.images.decode import UnreadableImageError, decode_fully
from trainmark.data.images.files import ImageFiles, list_images, listing_fault
from trainmark.data.split import Problem

UNDER_WAY = 1024  # files that are handed to the threads at a time: a million at once would be a million records


def folder_problems(folders: Iterable[Path]) -> Iterator[Problem]:
    """A problem for each folder that cannot be listed or holds no image."""
    for folder in folders:
        fault = listing_fault(folder) or (None if list_images(folder) else "holds no images")
        if fault is not None:
            yield Problem(str(folder), None, fault)


def image_problems(files: ImageFiles) -> Iterator[Problem]:
    """A problem for each file that cannot be decoded whole, in the order of the files."""
    # Threads are enough: Pillow lets go of the interpreter while it decodes.
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as threads:
        for start in range(0, len(files), UNDER_WAY):
            some = range(start, min(start + UNDER_WAY, len(files)))
            for index, reason in zip(some, threads.map(lambda index: _reason(files, index), some), strict=True):
                if reason is not None:
                    yield Problem(str(files.path(index)), index, reason)


def _reason(files: ImageFiles, index: int) -> str | None:
    try:
        decode_fully(files.path(index))
    except UnreadableImageError as error:
        return f"cannot be decoded: {error}"
    return None
