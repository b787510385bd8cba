"""Non-maximum suppression: of members' overlapping boxes of one class the best is kept."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.box_overlap import Boxes, overlap
from trainmark.workloads.quality.detections import Predictions, array_of, runs_of, table_of

MOST_OVERLAP = 0.5


def suppress(members: Sequence[Predictions]) -> NDArray[np.float32]:
    """The 100 best kept boxes of each image; one member's own boxes are left as they are."""
    num_images = len(members[0])
    table = table_of(np.concatenate(members, axis=1))
    if len(members) == 1:
        return array_of(table, num_images)
    runs = runs_of(table)
    is_kept = np.zeros(len(table.images), dtype=bool)
    for block in runs.blocks():
        rows, is_real = runs.table_rows(block)
        is_kept[rows[is_real]] = _keep(table.boxes[:, rows], is_real)[is_real]
    return array_of(table.rows(is_kept), num_images)


def _keep(boxes: Boxes, is_real: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a run's box, best first, overlaps none of those kept before it by more than the limit."""
    is_kept = np.zeros(is_real.shape, dtype=bool)
    for rank in range(is_real.shape[1]):
        num_runs = np.count_nonzero(is_real[:, rank])  # the first ones: the others are shorter
        overlaps = overlap(boxes[:, :num_runs, rank, None], boxes[:, :num_runs, :rank])
        is_kept[:num_runs, rank] = ~((overlaps > MOST_OVERLAP) & is_kept[:num_runs, :rank]).any(axis=1)
    return is_kept
