"""ParallelLayout: how a member's workers divide model and data, and the resulting global batch."""

from typing import NamedTuple

from trainmark.spec.config import TrainConfig

SPLITTING = ("model", "gpipe", "1f1b")


class ParallelLayout(NamedTuple):
    """P workers = replicas × stages: rank r is stage r mod stages of replica r div stages."""

    replicas: int
    stages: int

    def replica_of(self, rank: int) -> int:
        """Returns the replica of a rank, which determines its samples."""
        return rank // self.stages

    def stage_of(self, rank: int) -> int:
        """Returns the pipeline stage of a rank."""
        return rank % self.stages


def layout_of(train: TrainConfig, workers: int) -> ParallelLayout:
    """Returns the layout: one replica per worker, or per `stages` workers if the parallel mode splits the model."""
    stages = (train.stages or workers) if train.parallel in SPLITTING else 1
    return ParallelLayout(workers // stages, stages)


def samples_per_replica(train: TrainConfig) -> int:
    """Returns the samples per replica and step."""
    return train.batch_size * train.accumulation


def global_batch(train: TrainConfig, workers: int) -> int:
    """Returns the samples per step of a member: batch size × accumulation × replicas."""
    return samples_per_replica(train) * layout_of(train, workers).replicas
