"""The head that looks at one pooled region: which class it is, and how each class's box differs from it."""

import torch.nn.functional as F
from torch import Tensor, nn


class BoxHead(nn.Module):
    """Two fully connected layers, then the predictors of classes (0 is background) and of each one's box."""

    def __init__(self, pooled: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(pooled, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.classes = nn.Linear(hidden, num_classes + 1)
        self.deltas = nn.Linear(hidden, 4 * (num_classes + 1))
        for layer, std in ((self.classes, 0.01), (self.deltas, 0.001)):  # Girshick 2015, 3.1
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)

    def forward(self, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Scores before softmax [N, classes + 1] and deltas [N, 4 · (classes + 1)]."""
        seen = F.relu(self.second(F.relu(self.first(pooled.flatten(1)))))
        return self.classes(seen), self.deltas(seen)
