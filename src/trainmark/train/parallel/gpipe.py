"""GPipe: the layers are split over workers; all micro-batches go forward, then all go backward."""

from torch import nn
from torch.distributed.pipelining import ScheduleGPipe

from trainmark.train.parallel.pipeline import build_pipeline
from trainmark.train.parallelism import Parallelism, Parts


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Pipeline by GPipe: layers split over workers; all micro-batches go forward, then all go backward."""
    return build_pipeline(model, parts, ScheduleGPipe, parts.settings.micro_batches)
