"""Mean average precision of detections at IoU 0.5; the ensemble keeps its members' best boxes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.workloads.quality.box_nms import suppress
from trainmark.workloads.quality.detections import Predictions
from trainmark.workloads.quality.map50 import Map50

TASK = "detection"


class Map50Nms:
    """Mean average precision of detections at IoU 0.5; the ensemble keeps its members' best boxes."""

    RANGE = Map50.RANGE
    score = staticmethod(Map50.score)
    interval = staticmethod(Map50.interval)

    @staticmethod
    def combine(members: Sequence[Predictions]) -> NDArray[np.float32]:
        """The members' boxes without those that overlap a better one; at most 100 per image."""
        return suppress(members)
