"""Average precision of one class: the mean of the best precision at 101 levels of recall, as COCO defines it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.detections import Detections, Positions

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
