"""The trainee of one rank, put together from the parts that the configuration names."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.layout import global_batch, layout_of
from trainmark.spec.model_card import BLOCK_CHANNELS
from trainmark.spec.plan import Rank
from trainmark.spec.registries import (
    COMMUNICATION,
    DATASETS,
    OPTIMIZERS,
    PARALLEL,
    PRECISIONS,
    QUALITIES,
    SCHEDULES,
    TASKS,
)
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.seeds import Purpose, stream
from trainmark.train.event_log import EventLog
from trainmark.train.open_data import Data
from trainmark.train.torch.activations import offloading, recompute_layers
from trainmark.train.torch.process_group import replica_peers
from trainmark.train.torch.protocols import Arithmetic, Parts, Peers
from trainmark.train.torch.speed import image_layout
from trainmark.train.torch.trainee import Trainee
from trainmark.workloads.find import find_card, find_size
from trainmark.workloads.flops.count import count_model


def build_trainee(
    record: JobRecord, rank: Rank, data: Data, workers: Peers, attempt: AttemptFolder, log: EventLog
) -> Trainee:
    """Model, optimizer and all that trains them on this rank; what was chosen stands in the events."""
    config, train, device = record.config, record.config.train, workers.device
    arithmetic = PRECISIONS.load(train.precision)(device, train)
    layout = layout_of(train, workers.size)
    replicas = replica_peers(workers, layout)
    communicator = COMMUNICATION.load(train.communication)(_joined(train.parallel, replicas), train)
    task = TASKS.load(find_size(config.workload, config.size).task)
    parts = Parts(
        settings=train,
        layout=layout,
        workers=workers,
        replicas=replicas,
        task=task,
        arithmetic=_with_offloading(arithmetic, config, attempt),
        communicator=communicator,
        sample_shape=data.sample_shape,
        build_model=lambda: build_model(config, arithmetic, device),
    )
    parallelism = PARALLEL.load(train.parallel)(parts.build_model(), parts)
    _part_from_other_ranks(config.seed, record.job.member, rank.rank)
    optimizer = OPTIMIZERS.load(train.optimizer)(parallelism.parameters(), train)
    if rank.rank == 0:
        log.write("model_ready", **count_model(config.model, config.model_settings, data.sample_shape))
        log.write("engine_ready", **engine_facts(config, workers.size, arithmetic, optimizer))
    return Trainee(
        config=config,
        member=record.job.member,
        rank=rank.rank,
        workers=workers.size,
        layout=layout,
        device=device,
        counts=data.counts,
        parallelism=parallelism,
        communicator=communicator,
        arithmetic=arithmetic,
        optimizer=optimizer,
        schedule=SCHEDULES.load(train.schedule),
        task=task,
        quality=QUALITIES.load(config.quality),
        train_batches=data.train,
        kept_batches=data.kept,
        eval_batches=data.evaluation,
    )


def build_model(config: RunConfig, arithmetic: Arithmetic, device: torch.device) -> nn.Module:
    """The model as it is trained: on its device, in its layout and precision."""
    model: nn.Module = find_card(config.model).build("torch", config.model_settings)
    model = arithmetic.convert(model.to(device).to(memory_format=image_layout(config.train)))  # type: ignore[call-overload]
    if device.type == "cpu" and config.train.torch.memory_format == "channels-last":
        refuse_narrow_convolutions(model)
    if config.train.torch.recompute:
        recompute_layers(model)
    return model


def refuse_narrow_convolutions(model: nn.Module) -> None:
    """Raises if oneDNN would compute wrong gradients of the model; the plan knows this only of models that state it."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1) and max(layer.stride) > 1:
            channels = layer.in_channels // layer.groups
            if channels < BLOCK_CHANNELS:
                raise PlanError(
                    f"The strided 1×1 convolution {name} has {channels} input channels, and in channels-last oneDNN "
                    f"computes wrong gradients below {BLOCK_CHANNELS}. Choose --set "
                    "train.torch.memory_format=contiguous."
                )


def engine_facts(
    config: RunConfig, workers: int, arithmetic: Arithmetic, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Which options were on, for the Result."""
    train = config.train
    return {
        "synthetic": bool(getattr(DATASETS.load(config.dataset), "is_synthetic", False)),
        "precision": train.precision,
        "arithmetic": arithmetic.note,
        "optimizer": train.optimizer,
        "optimizer_form": "fused" if optimizer.param_groups[0].get("fused") else "foreach",
        "threads": torch.get_num_threads(),
        "thread_binding": config.launch.thread_binding,
        "allocator": config.launch.allocator,
        "memory_format": train.torch.memory_format,
        "compiler": train.torch.compiler,
        "cuda_graph": train.torch.cuda_graph,
        "recompute": train.torch.recompute,
        "offload": train.torch.offload,
        "parallel": train.parallel,
        "communication": train.communication,
        "communication_precision": train.communication_precision,
        "batch_norm": train.batch_norm,
        "replicas": layout_of(train, workers).replicas,
        "stages": layout_of(train, workers).stages,
        "global_batch": global_batch(train, workers),
    }


def _part_from_other_ranks(seed: int, member: int, rank: int) -> None:
    """Weights came from a seed that all ranks share; what training itself draws (int8 rounds at random) must differ."""
    torch.manual_seed(int(stream(seed, member, Purpose.NOISE, rank).integers(2**62)))


def _joined(parallel: str, replicas: Peers) -> Peers:
    """Whom the communicator joins gradients with; where layers or shards travel, the parallel mode does it itself."""
    return replicas if parallel == "data" else Peers(0, replicas.nodes[:1], None, replicas.device)


def _with_offloading(arithmetic: Arithmetic, config: RunConfig, attempt: AttemptFolder) -> Arithmetic:
    """The arithmetic, whose training passes also move activations; predictions save none."""
    if config.train.torch.offload == "none":
        return arithmetic
    offload = offloading(config.train, attempt.path)

    def forward() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(arithmetic.forward())
        stack.enter_context(offload)
        return stack

    return replace(arithmetic, forward=forward)
