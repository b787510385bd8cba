"""Builds the training state of one rank from the parts that the configuration names."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.events import EngineReady
from trainmark.spec.layout import global_batch, layout_of
from trainmark.spec.model_card import BLOCK_CHANNELS
from trainmark.spec.registries import (
    COMMUNICATION,
    OPTIMIZERS,
    PARALLEL,
    PRECISIONS,
    TASKS,
)
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.seeds import RandomStream, generator_for
from trainmark.train.engine import RankContext
from trainmark.train.torch.activations import offloading, recompute_layers
from trainmark.train.torch.compilation import image_memory_format, uses_onednn
from trainmark.train.torch.padding import PaddingMask
from trainmark.train.torch.process_group import replica_group
from trainmark.train.torch.protocols import Arithmetic, Communicator, Parallelism, Parts, WorkerGroup
from trainmark.train.torch.tasks import Task
from trainmark.workloads.find import find_card, find_size


@dataclass(frozen=True)
class TrainingState:
    """A member's model on one rank, and what trains it."""

    arithmetic: Arithmetic
    communicator: Communicator
    parallelism: Parallelism
    optimizer: torch.optim.Optimizer
    task: Task


def build_state(context: RankContext, workers: WorkerGroup, sample_shape: tuple[int, ...]) -> TrainingState:
    """Builds model, optimizer, precision, communication and parallel mode of this rank."""
    config, train, device = context.config, context.config.train, workers.device
    arithmetic = PRECISIONS.load(train.precision)(device, train)
    layout = layout_of(train, workers.size)
    replicas = replica_group(workers, layout)
    communicator = COMMUNICATION.load(train.communication)(_averaging(train.parallel, replicas), train)
    task = TASKS.load(find_size(config.workload, config.size).task)
    padding = PaddingMask() if train.mask_padding else None
    parts = Parts(
        settings=train,
        layout=layout,
        workers=workers,
        replicas=replicas,
        task=task,
        arithmetic=_with_offloading(arithmetic, config, context.attempt),
        communicator=communicator,
        sample_shape=sample_shape,
        build_model=lambda: build_model(config, arithmetic, device, padding),
        padding=padding,
    )
    parallelism = PARALLEL.load(train.parallel)(parts.build_model(), parts)
    _seed_per_rank(config.seed, context.member, context.rank.rank)
    optimizer = OPTIMIZERS.load(train.optimizer)(parallelism.parameters(), train)
    return TrainingState(arithmetic, communicator, parallelism, optimizer, task)


def build_model(
    config: RunConfig, arithmetic: Arithmetic, device: torch.device, padding: PaddingMask | None = None
) -> nn.Module:
    """Builds the model on its device, in its memory format and precision."""
    model: nn.Module = find_card(config.model).build("torch", config.model_settings)
    if config.train.batch_norm_momentum is not None:
        set_batch_norm_momentum(model, config.train.batch_norm_momentum)
    model = arithmetic.convert(model.to(device).to(memory_format=image_memory_format(config.train)))  # type: ignore[call-overload]
    if device.type == "cpu" and config.train.torch.onednn and config.train.torch.memory_format == "channels-last":
        reject_narrow_convolutions(model)
    if padding is not None:
        padding.attach(model)
    if config.train.torch.recompute:
        recompute_layers(model)
    return model


def set_batch_norm_momentum(model: nn.Module, momentum: float) -> None:
    """Sets the weight of a batch in all running statistics; raises if there are none, which a card may not state."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        raise PlanError("The model has no batch normalisation, but train.batch_norm_momentum is set. Remove it.")
    for layer in layers:
        layer.momentum = momentum


def reject_narrow_convolutions(model: nn.Module) -> None:
    """Raises if oneDNN would compute wrong gradients; the plan checks only models whose card declares it."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1) and max(layer.stride) > 1:
            channels = layer.in_channels // layer.groups
            if channels < BLOCK_CHANNELS:
                raise PlanError(
                    f"The strided 1×1 convolution {name} has {channels} input channels, and in channels-last oneDNN "
                    f"computes wrong gradients below {BLOCK_CHANNELS}. Choose --set "
                    "train.torch.memory_format=contiguous."
                )


def chosen_options(context: RankContext, state: TrainingState, *, is_synthetic: bool) -> EngineReady:
    """The options in use, for the Result."""
    config, train, workers = context.config, context.config.train, context.workers
    return EngineReady(
        synthetic=is_synthetic,
        precision=train.precision,
        arithmetic=state.arithmetic.note,
        optimizer=train.optimizer,
        optimizer_form="fused" if state.optimizer.param_groups[0].get("fused") else "foreach",
        threads=torch.get_num_threads(),
        interop_threads=torch.get_num_interop_threads(),
        thread_binding=config.launch.thread_binding,
        allocator=config.launch.allocator,
        memory_format=train.torch.memory_format,
        compiler=train.torch.compiler,
        cuda_graph=train.torch.cuda_graph,
        recompute=train.torch.recompute,
        offload=train.torch.offload,
        parallel=train.parallel,
        communication=train.communication,
        communication_precision=train.communication_precision,
        batch_norm=train.batch_norm,
        replicas=layout_of(train, workers).replicas,
        stages=layout_of(train, workers).stages,
        global_batch=global_batch(train, workers),
        further={"onednn": uses_onednn()} if context.rank.accelerator is None else {},
    )


def _seed_per_rank(seed: int, member: int, rank: int) -> None:
    """Reseeds: initial weights use the same seed on all ranks, stochastic rounding (int8) a different one per rank."""
    torch.manual_seed(int(generator_for(seed, member, RandomStream.NOISE, rank).integers(2**62)))


def _averaging(parallel: str, replicas: WorkerGroup) -> WorkerGroup:
    """The workers that average gradients; other parallel modes than "data" average them themselves."""
    return replicas if parallel == "data" else WorkerGroup(0, replicas.nodes[:1], None, replicas.device)


def _with_offloading(arithmetic: Arithmetic, config: RunConfig, attempt: AttemptFolder) -> Arithmetic:
    """The arithmetic, with activation offloading in training passes; predictions save no activations."""
    if config.train.torch.offload == "none":
        return arithmetic
    offload = offloading(config.train, attempt.path)

    def forward() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(arithmetic.forward())
        stack.enter_context(offload)
        return stack

    return replace(arithmetic, forward=forward)
