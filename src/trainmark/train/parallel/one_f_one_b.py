"""1F1B: the layers are split over workers; each micro-batch goes backward as soon as it can, which saves memory."""

from torch import nn
from torch.distributed.pipelining import Schedule1F1B

from trainmark.train.parallel.pipeline import build_pipeline
from trainmark.train.parallelism import Parallelism, Parts


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Pipeline by 1F1B: layers split over workers; each micro-batch goes backward as soon as it can."""
    stages, micro_batches = parts.layout.stages, parts.settings.micro_batches
    assert micro_batches >= stages or parts.workers.size == 1, "the plan has checked it"
    return build_pipeline(model, parts, Schedule1F1B, micro_batches)
