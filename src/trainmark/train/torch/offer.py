"""PyTorch, on CPUs and NVIDIA GPUs: all models, optimizers, precisions, parallel and communication modes."""

from trainmark.spec.engine_offer import EngineOffer
from trainmark.spec.registries import (
    COMMUNICATION,
    COMMUNICATION_PRECISIONS,
    OPTIMIZERS,
    PARALLEL,
    PRECISIONS,
    TASKS,
)
from trainmark.train.torch.planning import fill, refusals

# Read by the plan, on nodes without torch, too: nothing here or in planning.py may import it.
OFFER = EngineOffer(
    implementation="trainmark.train.torch.engine:TorchEngine",
    packages=("torch",),
    # These registries are of torch's parts, those of plug-ins included.
    tasks=TASKS,
    devices=("cpu", "cuda"),
    optimizers=OPTIMIZERS,
    precisions=PRECISIONS,
    parallel=PARALLEL,
    communication=COMMUNICATION,
    communication_precisions=COMMUNICATION_PRECISIONS,
    section="torch",
    fill=fill,
    refusals=refusals,
)
