"""The ensemble's boxes: members' detections fused by weight (Solovyev et al. 2019), or by non-maximum suppression."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.detections import (
    Boxes,
    Detections,
    Positions,
    Predictions,
    array_of,
    overlap,
    runs_of,
    table_of,
)

MIN_OVERLAP = 0.55  # with the fused box of a cluster, for a box to be added to it
MIN_WEIGHT = 1e-9  # so that boxes of score 0 have a mean


class Clusters(NamedTuple):
    """The clusters of each run of a block, as sums over their boxes."""

    sizes: Positions  # 0: no cluster
    scores: NDArray[np.float64]
    weights: NDArray[np.float64]
    weighted_boxes: Boxes
    boxes: Boxes


def fuse(members: Sequence[Predictions]) -> NDArray[np.float32]:
    """The 100 best fused boxes of each image; a single member's boxes are unchanged."""
    num_images = len(members[0])
    table = table_of(np.concatenate(members, axis=1))
    if len(members) == 1:
        return array_of(table, num_images)
    runs = runs_of(table)
    parts = [table.rows(np.zeros(0, dtype=np.int64))]
    for block in runs.blocks():
        rows, is_real = runs.table_rows(block)
        clusters = _cluster(table.boxes[:, rows], table.scores[rows], is_real)
        run, place = np.nonzero(clusters.sizes)
        sizes = clusters.sizes[run, place]
        scores = clusters.scores[run, place] / sizes * np.minimum(sizes, len(members)) / len(members)
        parts.append(
            Detections(runs.images[block][run], runs.classes[block][run], clusters.boxes[:, run, place], scores)
        )
    return array_of(Detections(*(np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))), num_images)


def _cluster(boxes: Boxes, scores: NDArray[np.float64], is_real: NDArray[np.bool_]) -> Clusters:
    """Adds each box of a run, best first, to the cluster that it overlaps most, or a new one. Longest runs first."""
    clusters = Clusters(
        np.zeros(scores.shape, dtype=np.int64), *np.zeros((2, *scores.shape)), *np.zeros((2, *boxes.shape))
    )
    num_clusters = np.zeros(len(scores), dtype=np.int64)
    for rank in range(scores.shape[1]):
        runs = np.flatnonzero(is_real[:, rank])  # the first ones: the others are shorter
        box = boxes[:, runs, rank]
        overlaps = overlap(box[:, :, None], clusters.boxes[:, : len(runs), : max(1, num_clusters.max())])
        best = overlaps.argmax(axis=1)
        joins = overlaps[runs, best] > MIN_OVERLAP
        _add(clusters, (runs, np.where(joins, best, num_clusters[runs])), box, scores[runs, rank])
        num_clusters[runs] += ~joins
    return clusters


def _add(clusters: Clusters, places: tuple[Positions, Positions], box: Boxes, score: NDArray[np.float64]) -> None:
    weight = np.maximum(score, MIN_WEIGHT)
    clusters.sizes[places] += 1
    clusters.scores[places] += score
    clusters.weights[places] += weight
    clusters.weighted_boxes[:, *places] += weight * box
    clusters.boxes[:, *places] = clusters.weighted_boxes[:, *places] / clusters.weights[places]


MAX_OVERLAP = 0.5


def suppress(members: Sequence[Predictions]) -> NDArray[np.float32]:
    """The 100 best kept boxes of each image; a single member's boxes are unchanged."""
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
        is_kept[:num_runs, rank] = ~((overlaps > MAX_OVERLAP) & is_kept[:num_runs, :rank]).any(axis=1)
    return is_kept
