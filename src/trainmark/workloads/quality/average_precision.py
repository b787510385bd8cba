"""Average precision of one class: detections matched to ground truth, best first, and precision over recall."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.detections import Boxes, Detections, Positions, overlap, runs_of

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


NUM_RECALLS = 101  # 0, 0.01, …, 1


class Ranking(NamedTuple):
    """One class's detections in all images by falling score: whose they are, and which of them are true."""

    images: Positions
    hits: Positions  # the places of the true ones, rising
    num_truths: Positions  # ground-truth boxes in each image


def rank_by_class(
    found: Detections, is_true: NDArray[np.bool_], truth: Detections, num_images: int
) -> tuple[Ranking, ...]:
    """The ranking of each class that has ground truth. Equal scores stay in the images' order."""
    rankings = []
    for class_ in np.unique(truth.classes):
        mine = np.flatnonzero(found.classes == class_)
        mine = mine[np.argsort(-found.scores[mine], kind="stable")]
        num_truths = np.bincount(truth.images[truth.classes == class_], minlength=num_images)
        rankings.append(Ranking(found.images[mine], np.flatnonzero(is_true[mine]), num_truths))
    return tuple(rankings)


def average_precision(ranking: Ranking, times: Positions) -> float | None:
    """The average precision if each image stood so many times in the set; None without a ground-truth box."""
    num_truths = int(times @ ranking.num_truths)
    if num_truths == 0:
        return None
    # Precision is highest, and recall grows, at true detections only: the others are just counted.
    num_seen = np.cumsum(times[ranking.images])[ranking.hits]
    num_found = np.cumsum(times[ranking.images[ranking.hits]])
    precision = num_found / np.maximum(num_seen, 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    # In floats, as COCO: 7 of 10 boxes do not quite reach the level 0.7.
    places = np.searchsorted(num_found / num_truths, np.linspace(0, 1, NUM_RECALLS))
    return float(best_from_here[places[places < len(precision)]].sum() / NUM_RECALLS)
