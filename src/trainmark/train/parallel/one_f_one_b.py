"""1F1B: the layers are split over workers; each micro-batch goes backward as soon as it can, which saves memory."""

from torch import nn
from torch.distributed.pipelining import Schedule1F1B

from trainmark.spec.errors import PlanError
from trainmark.train.parallel.pipeline import build_pipeline
from trainmark.train.parallelism import Parallelism, Parts


def build(model: nn.Module, parts: Parts) -> Parallelism:
    """Pipeline by 1F1B: layers split over workers; each micro-batch goes backward as soon as it can."""
    stages, micro_batches = parts.layout.stages, parts.settings.micro_batches
    if micro_batches < stages:
        raise PlanError(
            f"1f1b keeps {stages} stages busy with as many micro-batches or more, but there are {micro_batches}. "
            f"Choose --set train.micro_batches={stages} or more, or --set train.parallel=gpipe."
        )
    return build_pipeline(model, parts, Schedule1F1B, micro_batches)
