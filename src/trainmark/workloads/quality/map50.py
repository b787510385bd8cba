"""Mean average precision of detections at IoU 0.5, as COCO's; the ensemble's boxes by fusion or by NMS."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.average_precision import Ranking, average_precision, find_matches, rank_by_class
from trainmark.workloads.quality.boxes_fusion import fuse, suppress
from trainmark.workloads.quality.detections import (
    MOST_PER_IMAGE,
    Labels,
    Positions,
    Predictions,
    runs_of,
    table_of,
    truth_of,
)

NUM_RESAMPLES = 200
RESAMPLING_SEED = 0  # the same predictions have the same interval


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
        """The 95 % interval of the score by bootstrap over images; None where all resamples score the same."""
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


def _rankings(predictions: Predictions, labels: Labels) -> tuple[Ranking, ...]:
    table, truth = table_of(predictions), truth_of(labels)
    found = table.rows(runs_of(table).ranks() < MOST_PER_IMAGE)  # COCO's limit is one of an image's class
    return rank_by_class(found, find_matches(found, truth), truth, len(labels))


def _mean(rankings: tuple[Ranking, ...], times: Positions) -> float:
    of_classes = [value for ranking in rankings if (value := average_precision(ranking, times)) is not None]
    return sum(of_classes) / len(of_classes) if of_classes else 0.0


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
