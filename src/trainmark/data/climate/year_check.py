"""Checks of year files: all problems of all files in one pass."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainmark.data.climate.grid import BOX_COLUMNS, CHANNELS, CLASSES, MAX_BOXES, NUM_CHANNELS, PADDING, Array
from trainmark.data.climate.year_file import DAMAGE, one_line
from trainmark.data.split import Problem, position_in_file
from trainmark.spec.units import counted, show_shape


def problems_of_files(files: list[Path]) -> Iterator[Problem]:
    """Yields the problems of each file, and files whose image size differs from that of earlier ones."""
    import h5py

    first_size: tuple[int, ...] | None = None
    for path in files:
        try:
            with h5py.File(path, "r") as file:
                yield from _problems_of_file(file, path)
                size = _size(file)
        except DAMAGE as error:
            yield Problem(str(path), None, f"cannot be read: {one_line(error)}")
            continue
        if size and first_size and size != first_size:
            yield Problem(
                str(path), None, f"its images are {show_shape(size)}, those of earlier files {show_shape(first_size)}"
            )
        first_size = first_size or size


def _problems_of_file(file: Any, path: Path) -> Iterator[Problem]:
    images, boxes = (_dataset(file, name) for name in ("images", "boxes"))
    for name, found in (("images", images), ("boxes", boxes)):
        if found is None:
            yield Problem(str(path), None, f"it has no dataset '{name}'")
    of_samples: list[Iterator[Problem]] = []
    if images is not None:
        yield from (Problem(str(path), None, what) for what in _wrong_form_of_images(images))
        of_samples.append(_problems_of_images(images, path))
    if boxes is not None:
        wrong_form = list(_wrong_form_of_boxes(boxes, None if images is None else images.shape))
        yield from (Problem(str(path), None, what) for what in wrong_form)
        if not wrong_form:
            of_samples.append(_problems_of_boxes(boxes, path, _size(file)))
    yield from heapq.merge(*of_samples, key=position_in_file)


def _dataset(file: Any, name: str) -> Any:
    """A dataset of the file; None if missing, a group, or its header is damaged."""
    try:
        found = file[name]
        return found if hasattr(found, "dtype") else None
    except DAMAGE:
        return None


def _size(file: Any) -> tuple[int, ...] | None:
    """Height and width of the images, if they can be read."""
    images = _dataset(file, "images")
    return None if images is None or len(images.shape) != 4 else tuple(images.shape[2:])


def _wrong_form_of_images(images: Any) -> Iterator[str]:
    if len(images.shape) != 4 or images.shape[1] != NUM_CHANNELS:
        yield f"its images are {show_shape(images.shape)}, not steps × {NUM_CHANNELS} × height × width"
    elif 0 in images.shape:
        yield f"its images are {show_shape(images.shape)}: there is nothing in them"
    if images.dtype != np.float32:
        yield f"its images are {images.dtype}, not float32"


def _wrong_form_of_boxes(boxes: Any, shape_of_images: tuple[int, ...] | None) -> Iterator[str]:
    if len(boxes.shape) != 3 or boxes.shape[1:] != (MAX_BOXES, len(BOX_COLUMNS)):
        yield f"its boxes are {show_shape(boxes.shape)}, not steps × {MAX_BOXES} × {len(BOX_COLUMNS)}"
    elif shape_of_images and boxes.shape[0] != shape_of_images[0]:
        yield f"it has boxes for {counted(boxes.shape[0], 'sample')}, but {counted(shape_of_images[0], 'image')}"
    if boxes.dtype.kind not in "iuf":
        yield f"its boxes are {boxes.dtype}, not numbers"


def _problems_of_images(images: Any, path: Path) -> Iterator[Problem]:
    """Yields samples that cannot be read or have non-finite values."""
    if images.dtype.kind not in "iuf" or len(images.shape) != 4:
        return
    for index in range(images.shape[0]):
        try:
            image = images[index]
        except DAMAGE as error:
            yield Problem(str(path), index, f"cannot be read: {one_line(error)}")
            continue
        bad = (~np.isfinite(image)).sum((1, 2))
        for channel in np.nonzero(bad)[0]:
            name = CHANNELS[channel].name if channel < NUM_CHANNELS else str(channel)
            what = f"{counted(bad[channel], 'value')} of {name} {'is' if bad[channel] == 1 else 'are'} NaN or infinite"
            yield Problem(str(path), index, what)


def _problems_of_boxes(boxes: Any, path: Path, size: tuple[int, ...] | None) -> Iterator[Problem]:
    try:
        values: Array = np.asarray(boxes[()], np.float32)
    except DAMAGE as error:
        yield Problem(str(path), None, f"its boxes cannot be read: {one_line(error)}")
        return
    for index, row in np.argwhere((values != PADDING).any(2)):
        for what in _wrong_of_box(values[index, row], size):
            yield Problem(str(path), int(index), f"box {row}: {what}")


def _wrong_of_box(box: Array, size: tuple[int, ...] | None) -> Iterator[str]:
    if not np.isfinite(box).all():
        yield "it holds NaN or infinite values"
        return
    ymin, xmin, ymax, xmax, category = (float(value) for value in box)
    if category not in range(len(CLASSES)):
        yield f"its class is {category:g}, not one of 0 … {len(CLASSES) - 1}"
    if ymax <= ymin or xmax <= xmin:
        yield f"it is empty: y {ymin:g} … {ymax:g}, x {xmin:g} … {xmax:g}"
    if size and (min(ymin, xmin) < 0 or ymax > size[0] or xmax > size[1]):
        yield f"y {ymin:g} … {ymax:g}, x {xmin:g} … {xmax:g} reach out of the image of {show_shape(size)}"
