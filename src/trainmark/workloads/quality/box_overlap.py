"""How much boxes overlap: intersection over union."""

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
    joined = _area(first) + _area(second) - shared
    shared /= np.maximum(joined, SMALLEST, out=joined)
    return shared


def _area(boxes: Boxes) -> NDArray[np.float64]:
    area: NDArray[np.float64] = (boxes[2] - boxes[0]) * (boxes[3] - boxes[1])
    return area
