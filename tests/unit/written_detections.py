"""Detections and ground truth written out by hand or drawn at random."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Row = tuple[float, ...]


def strip(start: float, stop: float, score: float, class_: int = 0) -> Row:
    """A detection of height 1 from x = start to x = stop: overlaps are those of lengths."""
    return (0.0, start, 1.0, stop, score, class_)


def true_strip(start: float, stop: float, class_: int = 0) -> Row:
    """A ground-truth box of height 1 from x = start to x = stop."""
    return (0.0, start, 1.0, stop, class_)


def predictions_of(*images: list[Row], most: int = 4) -> Array:
    """The images' detections, filled up with −1."""
    return _filled(images, most, 6)


def labels_of(*images: list[Row], most: int = 4) -> Array:
    """The images' ground-truth boxes, filled up with −1."""
    return _filled(images, most, 5)


def _filled(images: tuple[list[Row], ...], most: int, width: int) -> Array:
    array = np.full((len(images), most, width), -1, np.float32)
    for image, rows in enumerate(images):
        for place, row in enumerate(rows):
            array[image, place] = row
    return array


def random_boxes(rng: np.random.Generator, num_images: int, most: int) -> Array:
    """Boxes in a picture of 8 × 8, crowded enough to overlap; their corners are multiples of 1/4, exact in floats."""
    corners = rng.integers(0, 20, (num_images, most, 2)) / 4
    sizes = rng.integers(4, 13, (num_images, most, 2)) / 4
    return np.concatenate([corners, corners + sizes], axis=2).astype(np.float32)


def random_set(
    seed: int, num_images: int = 8, num_detections: int = 12, num_truths: int = 5, classes: int = 3, ties: bool = False
) -> tuple[Array, Array]:
    """Predictions and labels; half of the detections are ground truth, moved a little. Scores differ unless `ties`."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate(
        [random_boxes(rng, num_images, num_truths), rng.integers(-1, classes, (num_images, num_truths, 1))], axis=2
    ).astype(np.float32)
    boxes = random_boxes(rng, num_images, num_detections)
    classes_of = rng.integers(-1, classes, (num_images, num_detections))
    copied = rng.integers(0, num_truths, (num_images, num_detections))
    is_copy = rng.random((num_images, num_detections)) < 0.5
    moved = np.take_along_axis(labels[..., :4], copied[..., None], 1)
    moved = moved + rng.integers(-1, 2, moved.shape).astype(np.float32) / 4
    boxes = np.where(is_copy[..., None], moved, boxes)
    classes_of = np.where(is_copy, np.take_along_axis(labels[..., 4], copied, 1), classes_of)
    places = rng.permutation(num_images * num_detections).reshape(num_images, num_detections)
    scores = (places % 7) / 8 if ties else (places + 1) / (places.size + 1)
    predictions = np.concatenate([boxes, scores[..., None], classes_of[..., None]], axis=2).astype(np.float32)
    predictions[classes_of < 0] = -1
    labels[labels[..., 4] < 0] = -1
    return predictions, labels
