"""A workload of a third party: horizontal against vertical stripes, told apart by a linear model."""

from dataclasses import replace

import numpy as np
from pydantic import Field

from trainmark.data.split import Split
from trainmark.spec.config import Section
from trainmark.spec.model_card import ModelCard
from trainmark.spec.workload import Workload, WorkloadSize


class Settings(Section):
    """How many pictures."""

    num_train: int = Field(200, ge=1, description="training pictures")
    num_eval: int = Field(100, ge=1, description="held-out pictures")


class Stripes:
    """8 × 8 pictures with stripes across (0) or down (1)."""

    Settings = Settings

    def __init__(self, settings):
        self.settings = settings

    def num_samples(self, split):
        """How many samples a split has."""
        return self.settings.num_train if split == "train" else self.settings.num_eval

    def load(self, split):
        """The pictures and labels of a split."""
        rng = np.random.default_rng(split == "train")
        labels = rng.integers(0, 2, self.num_samples(split))
        across = np.tile(np.arange(8) % 2, (8, 1)).T
        pictures = np.where(labels[:, None, None] == 0, across, across.T) + 0.3 * rng.standard_normal(
            (len(labels), 8, 8)
        )
        return Split(pictures[:, None].astype(np.float32), labels.astype(np.int64))


def build():
    """A linear model."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


MODEL = ModelCard(
    name="stripes-linear",
    description="A linear model of 8 × 8 pictures.",
    input_shape=(1, 8, 8),
    builders={"torch": "trainmark_stripes:build"},
)


class FailsOnRankOne:
    """A task with a mistake that one worker alone meets."""

    @staticmethod
    def loss(model, inputs, targets):
        """The mean cross-entropy, but not on rank 1."""
        import torch.distributed as dist
        import torch.nn.functional as F

        if dist.get_rank() == 1:
            raise ValueError("a bad sample")
        return F.cross_entropy(model(inputs), targets)


def first_half(num_samples, random):
    """The first half of the samples, once each."""
    return (np.arange(num_samples) < num_samples // 2).astype(np.int64)


TINY = WorkloadSize(
    model="trainmark_stripes:MODEL",
    dataset="trainmark_stripes:Stripes",
    task="classification",
    quality="top1",
    target_quality=0.9,
    exponent=3,
    recipe={
        "epochs": 2,
        "batch_size": 10,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "reference_batch_size": 10,
        "schedule": "polynomial",
    },
)

WORKLOAD = Workload(sizes={"tiny": TINY})
BROKEN = Workload(sizes={"tiny": replace(TINY, task="trainmark_stripes:FailsOnRankOne")})
