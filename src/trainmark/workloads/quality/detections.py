"""Detections of many images as one table, in runs of one class and image; overlap of boxes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]  # ymin, xmin, ymax, xmax in the first dimension

SMALLEST = np.finfo(np.float64).tiny


def overlap(first: Boxes, second: Boxes) -> NDArray[np.float64]:
    """Intersection over union, box by box; 0 for boxes that only touch or have no area."""
    height = np.minimum(first[2], second[2]) - np.maximum(first[0], second[0])
    width = np.minimum(first[3], second[3]) - np.maximum(first[1], second[1])
    shared: NDArray[np.float64] = np.maximum(height, 0, out=height)
    shared *= np.maximum(width, 0, out=width)
    union = _area(first) + _area(second) - shared
    shared /= np.maximum(union, SMALLEST, out=union)
    return shared


def _area(boxes: Boxes) -> NDArray[np.float64]:
    area: NDArray[np.float64] = (boxes[2] - boxes[0]) * (boxes[3] - boxes[1])
    return area


Predictions = NDArray[np.floating]  # [images, detections, 6]: ymin, xmin, ymax, xmax, score, class; class −1: none
Labels = NDArray[np.floating]  # [images, boxes, 5]: ymin, xmin, ymax, xmax, class; class −1: none
Positions = NDArray[np.int64]

MAX_PER_IMAGE = 100  # COCO's maxDets
CELLS_OF_BLOCK = 16_384  # boxes processed together: fit in cache, and hide Python's overhead


class Detections(NamedTuple):
    """One row per detection."""

    images: Positions
    classes: Positions
    boxes: Boxes
    scores: NDArray[np.float64]

    def rows(self, which: NDArray[Any]) -> "Detections":
        """Some of the rows, in the given order."""
        return Detections(self.images[which], self.classes[which], self.boxes[:, which], self.scores[which])


class Runs(NamedTuple):
    """The positions of each class and image in the table."""

    classes: Positions
    images: Positions
    starts: Positions
    lengths: Positions

    def ranks(self) -> Positions:
        """The rank of every row of the table in its run, from 0."""
        return np.arange(self.lengths.sum()) - np.repeat(self.starts, self.lengths)

    def blocks(self) -> Iterator[Positions]:
        """The runs' numbers, longest first, in blocks of about `CELLS_OF_BLOCK` detections."""
        order = np.argsort(-self.lengths, kind="stable")
        begin = 0
        while begin < len(order):
            end = begin + max(1, CELLS_OF_BLOCK // int(self.lengths[order[begin]]))
            yield order[begin:end]
            begin = end

    def table_rows(self, block: Positions) -> tuple[Positions, NDArray[np.bool_]]:
        """The rows of each run of a block, padded with row 0 to the longest, and which are not padding."""
        ranks = np.arange(self.lengths[block].max(initial=0))
        is_real = ranks < self.lengths[block, None]
        return np.where(is_real, self.starts[block, None] + ranks, 0), is_real


def table_of(predictions: Predictions) -> Detections:
    """All detections by class, image and falling score; ties stay in order, non-finite ones are dropped."""
    is_detection = (predictions[..., 5] >= 0) & np.isfinite(predictions).all(axis=2)
    images = np.nonzero(is_detection)[0]
    rows = predictions[is_detection].astype(np.float64)
    table = Detections(images, rows[:, 5].astype(np.int64), rows[:, :4].T, rows[:, 4])
    return table.rows(np.lexsort((-table.scores, images, table.classes)))


def truth_of(labels: Labels) -> Detections:
    """All ground-truth boxes by class and image, as detections of one score."""
    return table_of(np.insert(labels, 4, 1.0, axis=2))


def runs_of(table: Detections) -> Runs:
    """The runs of a table that is in order of class and image."""
    is_first = np.ones(len(table.images), dtype=bool)
    is_first[1:] = (np.diff(table.classes) != 0) | (np.diff(table.images) != 0)
    starts = np.flatnonzero(is_first)
    lengths = np.diff(starts, append=len(table.images))
    return Runs(table.classes[starts], table.images[starts], starts, lengths)


def array_of(table: Detections, num_images: int) -> NDArray[np.float32]:
    """The best detections of each image by falling score, padded with −1 to 100."""
    table = table.rows(np.lexsort((-table.scores, table.images)))
    counts = np.bincount(table.images, minlength=num_images)
    ranks = np.arange(len(table.images)) - np.repeat(np.cumsum(counts) - counts, counts)
    table, ranks = table.rows(ranks < MAX_PER_IMAGE), ranks[ranks < MAX_PER_IMAGE]
    array = np.full((num_images, MAX_PER_IMAGE, 6), -1, dtype=np.float32)
    array[table.images, ranks] = np.vstack([table.boxes, table.scores, table.classes]).T
    return array
