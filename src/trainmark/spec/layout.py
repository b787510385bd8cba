"""ParallelLayout: how a member's workers share its model and its data, and what that makes the global batch."""

from typing import NamedTuple

from trainmark.spec.config import TrainConfig

SPLITTING = ("model", "gpipe", "1f1b")


class ParallelLayout(NamedTuple):
    """P workers = replicas × stages: rank r is stage r mod stages of replica r div stages."""

    replicas: int
    stages: int

    def replica_of(self, rank: int) -> int:
        """Which copy of the model a rank works on, and so which samples it sees."""
        return rank // self.stages

    def stage_of(self, rank: int) -> int:
        """Which part of the model's layers a rank holds."""
        return rank % self.stages


def layout_of(train: TrainConfig, workers: int) -> ParallelLayout:
    """All workers are replicas, unless the parallel mode splits the model: then `stages` of them share one copy."""
    stages = (train.stages or workers) if train.parallel in SPLITTING else 1
    return ParallelLayout(workers // stages, stages)


def samples_per_replica(train: TrainConfig) -> int:
    """Samples that one copy of the model sees in one step."""
    return train.batch_size * train.accumulation


def global_batch(train: TrainConfig, workers: int) -> int:
    """Samples of one step of a member: batch × accumulated passes × copies of the model."""
    return samples_per_replica(train) * layout_of(train, workers).replicas
