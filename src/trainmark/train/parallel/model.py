"""Model parallelism: the layers are split over workers, which work on the whole batch one after the other."""

from torch import nn
from torch.distributed.pipelining import ScheduleGPipe

from trainmark.train.parallel.pipeline import build_pipeline
from trainmark.train.parallelism import Parallelism, Parts


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Model parallelism: layers split over workers, which work on the whole batch one after the other."""
    return build_pipeline(model, parts, ScheduleGPipe, micro_batches=1)
