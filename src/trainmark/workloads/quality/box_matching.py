"""Which detections find a ground-truth box: the best first, each box once."""

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.box_overlap import Boxes, overlap
from trainmark.workloads.quality.detections import Detections, runs_of

LEAST_OVERLAP = 0.5


def find_matches(found: Detections, truth: Detections) -> NDArray[np.bool_]:
    """Whether each detection, best first, finds a free box of its class and image; it takes the one that fits best."""
    is_true = np.zeros(len(found.images), dtype=bool)
    runs, truth_runs = runs_of(found), runs_of(truth)
    run_of = {key: run for run, key in enumerate(zip(*truth_runs[:2], strict=True))}
    partners = np.array([run_of.get(key, -1) for key in zip(*runs[:2], strict=True)], dtype=np.int64)
    for block in runs.blocks():
        matched = block[partners[block] >= 0]
        rows, is_real = runs.table_rows(matched)
        truth_rows, is_truth = truth_runs.table_rows(partners[matched])
        hits = _match_block(found.boxes[:, rows], truth.boxes[:, truth_rows], is_truth)
        is_true[rows[is_real]] = hits[is_real]
    return is_true


def _match_block(boxes: Boxes, truth: Boxes, is_free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    overlaps = overlap(boxes[:, :, :, None], truth[:, :, None])
    num_runs, num_ranks, num_truths = overlaps.shape
    hits = np.zeros((num_runs, num_ranks), dtype=bool)
    runs = np.arange(num_runs)
    for rank in range(num_ranks):
        open_overlaps = np.where(is_free, overlaps[:, rank], -1.0)
        # COCO goes on to a box that overlaps as much as the best so far: of equals, the last is taken.
        best = num_truths - 1 - open_overlaps[:, ::-1].argmax(axis=1)
        hits[:, rank] = open_overlaps[runs, best] >= LEAST_OVERLAP
        is_free[runs, best] &= ~hits[:, rank]
    return hits
