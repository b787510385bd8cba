"""One class per sample: cross-entropy loss, class probabilities as predictions."""

import torch.nn.functional as F
from torch import Tensor


class Classification:
    """One class per sample: cross-entropy loss, class probabilities as predictions."""

    @staticmethod
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of a batch."""
        return F.cross_entropy(outputs.float(), targets)

    @staticmethod
    def predictions(outputs: Tensor) -> Tensor:
        """The probability of each class."""
        return F.softmax(outputs.float(), dim=1)
