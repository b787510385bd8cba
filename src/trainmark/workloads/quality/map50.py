"""Mean average precision of detections at IoU 0.5, as COCO's; the ensemble's boxes by fusion or by NMS."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.boxes_fusion import fuse, suppress
from trainmark.workloads.quality.detections import (
    MAX_PER_IMAGE,
    Boxes,
    Detections,
    Labels,
    Positions,
    Predictions,
    overlap,
    runs_of,
    table_of,
    truth_of,
)

MIN_OVERLAP = 0.5
NUM_RECALLS = 101  # 0, 0.01, …, 1
NUM_RESAMPLES = 200
RESAMPLING_SEED = 0  # the same predictions give the same interval


def find_matches(found: Detections, truth: Detections) -> NDArray[np.bool_]:
    """Whether each detection, best first, matches a free box of its class and image; it takes the best fit."""
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
        # As in COCO, of boxes with equal overlap the last one is taken.
        best = num_truths - 1 - open_overlaps[:, ::-1].argmax(axis=1)
        hits[:, rank] = open_overlaps[runs, best] >= MIN_OVERLAP
        is_free[runs, best] &= ~hits[:, rank]
    return hits


class Ranking(NamedTuple):
    """One class's detections in all images by falling score: their images, and which are true positives."""

    images: Positions
    hits: Positions  # positions of true positives, ascending
    num_truths: Positions  # ground-truth boxes in each image


def rank_by_class(
    found: Detections, is_true: NDArray[np.bool_], truth: Detections, num_images: int
) -> tuple[Ranking, ...]:
    """The ranking of each class that has ground truth. Equal scores stay in the images' order."""
    rankings = []
    for class_ in np.unique(truth.classes):
        of_class = np.flatnonzero(found.classes == class_)
        of_class = of_class[np.argsort(-found.scores[of_class], kind="stable")]
        num_truths = np.bincount(truth.images[truth.classes == class_], minlength=num_images)
        rankings.append(Ranking(found.images[of_class], np.flatnonzero(is_true[of_class]), num_truths))
    return tuple(rankings)


def average_precision(ranking: Ranking, times: Positions) -> float | None:
    """The average precision with each image counted `times` times; None without a ground-truth box."""
    num_truths = int(times @ ranking.num_truths)
    if num_truths == 0:
        return None
    # Precision peaks, and recall grows, at true positives only.
    num_seen = np.cumsum(times[ranking.images])[ranking.hits]
    num_found = np.cumsum(times[ranking.images[ranking.hits]])
    precision = num_found / np.maximum(num_seen, 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    # In floats, as in COCO: 7 of 10 boxes do not quite reach 0.7.
    places = np.searchsorted(num_found / num_truths, np.linspace(0, 1, NUM_RECALLS))
    return float(best_from_here[places[places < len(precision)]].sum() / NUM_RECALLS)


class Map50:
    """Mean average precision of detections at IoU 0.5, as COCO's; the ensemble fuses its members' boxes."""

    RANGE = (0.0, 1.0)
    task = "detection"

    @staticmethod
    def score(predictions: Predictions, labels: Labels) -> float:
        """The mean of the average precisions of the classes with ground truth; 0 if no class has any."""
        return _mean(_rankings(predictions, labels), np.ones(len(labels), dtype=np.int64))

    @staticmethod
    def interval(predictions: Predictions, labels: Labels) -> tuple[float, float] | None:
        """The 95 % interval of the score by bootstrap over images; None if all resamples score the same."""
        rankings, num_images = _rankings(predictions, labels), len(labels)
        if not rankings:
            return None
        rng = np.random.default_rng(RESAMPLING_SEED)
        draws = (rng.integers(0, num_images, num_images) for _ in range(NUM_RESAMPLES))
        scores = [_mean(rankings, np.bincount(draw, minlength=num_images)) for draw in draws]
        if min(scores) == max(scores):
            return None
        low, high = np.quantile(scores, (0.025, 0.975))
        score = _mean(rankings, np.ones(num_images, dtype=np.int64))
        return min(float(low), score), max(float(high), score)  # resamples are biased: they repeat images

    @staticmethod
    def combine(members: Sequence[Predictions]) -> NDArray[np.float32]:
        """The members' boxes, fused; at most 100 per image."""
        return fuse(members)


class Map50Nms:
    """Mean average precision of detections at IoU 0.5; the ensemble keeps its members' best boxes."""

    RANGE = Map50.RANGE
    task = Map50.task
    score = staticmethod(Map50.score)
    interval = staticmethod(Map50.interval)

    @staticmethod
    def combine(members: Sequence[Predictions]) -> NDArray[np.float32]:
        """The members' boxes without those that overlap a better one; at most 100 per image."""
        return suppress(members)


def _rankings(predictions: Predictions, labels: Labels) -> tuple[Ranking, ...]:
    table, truth = table_of(predictions), truth_of(labels)
    found = table.rows(runs_of(table).ranks() < MAX_PER_IMAGE)  # COCO's limit, per image and class
    return rank_by_class(found, find_matches(found, truth), truth, len(labels))


def _mean(rankings: tuple[Ranking, ...], times: Positions) -> float:
    of_classes = [value for ranking in rankings if (value := average_precision(ranking, times)) is not None]
    return sum(of_classes) / len(of_classes) if of_classes else 0.0
