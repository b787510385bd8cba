"""PyTorch, on CPUs and NVIDIA GPUs: all models, optimizers, precisions, parallel and communication modes.

What the engine offers, its defaults per device, and what it refuses; read by the plan on nodes without torch.
"""

from collections.abc import Iterator
from typing import Any

from trainmark.data.facts import varies_in_shape
from trainmark.spec.config import Compiler, MemoryFormat, RunChoices, RunConfig, TrainChoices, TrainConfig
from trainmark.spec.engine_offer import EngineOffer, differing
from trainmark.spec.layout import SPLITTING
from trainmark.spec.model_card import BLOCK_CHANNELS
from trainmark.spec.registries import COMMUNICATION, COMMUNICATION_PRECISIONS, OPTIMIZERS, PARALLEL, PRECISIONS, TASKS
from trainmark.spec.site import Site
from trainmark.spec.units import counted
from trainmark.workloads.find import find_card

SCALED = ("fp16-mixed", "fp16")  # precisions with loss scaling, which inspect the gradients before each step

# What oneDNN's blocked layout requires.
ONEDNN_REQUIRES: dict[str, str | bool] = {
    "precision": "fp32",
    "torch.compiler": "none",
    "parallel": "data",
    "batch_norm": "worker",
    "torch.recompute": False,
    "torch.offload": "none",
    "mask_padding": False,
}


# What masked padding requires.
MASKING_REQUIRES: dict[str, str | bool] = {"batch_norm": "worker", "torch.compiler": "none"}


def fill(choices: RunChoices, workers: int, site: Site) -> dict[str, Any]:
    """Returns the section with all defaults resolved; docs/benchmarks.md has the measurements behind them."""
    train = choices.train
    train = _with(train, compiler=train.torch.compiler or default_compiler(choices, train, site))
    train = _with(train, memory_format=train.torch.memory_format or default_layout(choices, train, site))
    if train.torch.cuda_graph is None:
        graph = site.has_accelerators and not reasons_against_graph(choices, train, workers)
        train = _with(train, cuda_graph=graph)
    return {"torch": train.torch.model_dump()}


def _with(train: TrainChoices, **settings: str | bool) -> TrainChoices:
    return train.model_copy(update={"torch": train.torch.model_copy(update=settings)})


def default_compiler(choices: RunChoices, train: TrainChoices, site: Site) -> Compiler:
    """Inductor on accelerators, where possible; on CPUs compilation costs a minute and gains nothing."""
    whole = (
        has_fixed_shapes(choices)
        and train.parallel == "data"
        and train.precision != "int8"
        and train.torch.memory_format != "onednn"
    )
    return "inductor" if site.has_accelerators and whole and not train.torch.recompute else "none"


def default_layout(choices: RunChoices, train: TrainChoices, site: Site) -> MemoryFormat:
    """Channels last; on CPUs oneDNN's blocked layout for models that support it, NCHW where channels-last is unsafe."""
    if site.has_accelerators:
        return "channels-last"
    if not train.torch.onednn:
        return "contiguous"  # native convolutions unfold images, which is faster in NCHW
    if find_card(choices.model).blocked_layout and not any(differing(train, ONEDNN_REQUIRES)):
        return "onednn"
    return "contiguous" if find_card(choices.model).narrow_channels(choices.model_settings) else "channels-last"


def has_fixed_shapes(choices: RunChoices) -> bool:
    """Whether no tensor shape in the model depends on the data."""
    return find_card(choices.model).has_fixed_shapes and not varies_in_shape(choices)


def reasons_against_graph(choices: RunChoices, train: TrainChoices, workers: int) -> list[str]:
    """Why the step cannot be captured as one CUDA graph; empty if it can."""
    against = {
        f"shapes inside {choices.model} depend on the data": not has_fixed_shapes(choices),
        f"{workers} workers exchange gradients inside the step": workers > 1,
        f"{train.precision} inspects the gradients before each step": train.precision in SCALED,
        "int8 draws random numbers on the host": train.precision == "int8",
        "offloaded activations leave the device": train.torch.offload != "none",
        "recomputation saves the state of the random generator": train.torch.recompute,
        "torchscript specialises at run time": train.torch.compiler == "torchscript",
        f"train.momentum_correction={train.momentum_correction} changes momentum between steps": (
            train.momentum_correction != "as-published"
        ),
    }
    return [reason for reason, holds in against.items() if holds]


def refusals(config: RunConfig, workers: int, site: Site) -> Iterator[str]:
    """Yields why torch cannot train this, each reason with the nearest valid choice."""
    yield from _arithmetic(config.train)
    yield from _powersgd(config.train)
    yield from _memory(config.train, site)
    yield from _without_onednn(config.train, site)
    yield from _unsafe_layout(config, site)
    yield from _masking(config.train)
    yield from _speed(config, workers, site)


def _arithmetic(train: TrainConfig) -> Iterator[str]:
    if train.precision == "int8" and train.parallel != "data":
        yield (
            f"int8 training quantises whole layers, but train.parallel={train.parallel} splits them. "
            "Choose --set train.parallel=data, or --set train.precision=bf16-mixed."
        )
    if train.precision == "fp16" and train.parallel == "sharded":
        yield (
            "Pure fp16 keeps batch normalisation in fp32, but sharding needs one dtype per layer. "
            "Choose --set train.precision=fp16-mixed, or --set train.parallel=data."
        )
    if train.precision in SCALED and train.communication == "parameter-server":
        yield (
            f"{train.precision} scales the loss of each worker separately, which a parameter server cannot undo. "
            "Choose --set train.precision=bf16-mixed, or --set train.communication=allreduce."
        )
    if train.precision == "fp16" and train.optimizer in ("adam", "adamw", "adagrad", "lamb"):
        yield (
            f"{train.optimizer} keeps squared gradients, which underflow in pure fp16. "
            "Choose --set train.precision=fp16-mixed, or --set train.optimizer=sgd."
        )


def _powersgd(train: TrainConfig) -> Iterator[str]:
    if train.communication_precision == "powersgd" and train.communication != "allreduce":
        yield (
            f"powersgd has its own all-reduce, so train.communication={train.communication} cannot be used with it. "
            "Choose --set train.communication=allreduce, or --set train.communication_precision=int8."
        )
    if train.communication_precision == "powersgd" and train.precision in SCALED:
        yield (
            f"powersgd would keep the overflows of {train.precision} in its error feedback. "
            "Choose --set train.precision=bf16-mixed, or --set train.communication_precision=fp16."
        )


def _memory(train: TrainConfig, site: Site) -> Iterator[str]:
    if train.torch.offload == "host" and not site.has_accelerators:
        yield "On a CPU, activations are in host memory already. Choose --set train.torch.offload=disk."
    if train.torch.offload == "disk" and train.parallel in SPLITTING:
        yield (
            f"train.torch.offload=disk keeps the activations of one pass at a time, but train.parallel="
            f"{train.parallel} has several in flight. Choose --set train.torch.offload=none (and recompute), or "
            "--set train.parallel=sharded."
        )
    if train.torch.memory_format != "onednn":
        return
    if site.has_accelerators:
        yield "The oneDNN layout is for CPUs. Choose --set train.torch.memory_format=channels-last."
    for key, chosen, only in differing(train, ONEDNN_REQUIRES):
        yield (
            f"The oneDNN layout works with train.{key}={only} only, but it is {chosen}. "
            f"Choose --set train.torch.memory_format=channels-last, or --set train.{key}={only}."
        )


def _without_onednn(train: TrainConfig, site: Site) -> Iterator[str]:
    if train.torch.onednn:
        return
    if site.has_accelerators:
        yield "oneDNN is a library for CPUs, but the site has accelerators. Do not set train.torch.onednn."
    if train.torch.memory_format == "onednn":
        yield (
            "The oneDNN layout needs oneDNN, but train.torch.onednn is false. "
            "Choose --set train.torch.memory_format=contiguous, or --set train.torch.onednn=true."
        )
    if train.precision == "int8":
        yield (
            "int8 products on CPUs need oneDNN, but train.torch.onednn is false. "
            "Choose --set train.precision=fp32, or --set train.torch.onednn=true."
        )


def _unsafe_layout(config: RunConfig, site: Site) -> Iterator[str]:
    narrow = find_card(config.model).narrow_channels(config.model_settings)
    uses_onednn = config.train.torch.onednn and not site.has_accelerators
    if narrow and config.train.torch.memory_format == "channels-last" and uses_onednn:
        yield (
            f"{config.model} has a strided 1×1 convolution of {counted(narrow, 'channel')}, whose gradient oneDNN "
            f"computes wrongly in channels-last below {BLOCK_CHANNELS}. Choose --set "
            f"train.torch.memory_format=contiguous, or --set "
            f"model_settings.{find_card(config.model).strided_1x1_input}={BLOCK_CHANNELS}."
        )


def _masking(train: TrainConfig) -> Iterator[str]:
    for key, chosen, only in differing(train, MASKING_REQUIRES) if train.mask_padding else ():
        yield (
            f"Padding is masked with train.{key}={only} only, but it is {chosen}. "
            f"Choose --set train.{key}={only}, or --set train.mask_padding=false."
        )
    if train.mask_padding and train.precision == "int8":
        yield "Padding cannot be masked in int8 products. Choose --set train.mask_padding=false."


def _speed(config: RunConfig, workers: int, site: Site) -> Iterator[str]:
    train = config.train
    if train.torch.cuda_graph and not site.has_accelerators:
        yield "CUDA graphs need a GPU, but the site has none. Do not set train.torch.cuda_graph."
    elif train.torch.cuda_graph and (reasons := reasons_against_graph(config, train, workers)):
        yield f"The step cannot be captured as a CUDA graph: {reasons[0]}. Choose --set train.torch.cuda_graph=false."
    if train.torch.compiler == "none":
        return
    if not has_fixed_shapes(config):
        yield f"Shapes inside {config.model} depend on the data. Choose --set train.torch.compiler=none."
    for key, chosen, only in differing(train, {"parallel": "data", "torch.recompute": False}):
        yield (
            f"{train.torch.compiler} compiles the whole model, but train.{key}={chosen} splits it. "
            f"Choose --set train.torch.compiler=none, or --set train.{key}={only}."
        )
    if train.precision == "int8":
        yield f"{train.torch.compiler} cannot compile int8 products. Choose --set train.torch.compiler=none."
    for name in (train.precision, train.batch_norm):
        if train.torch.compiler == "torchscript" and name in ("fp16", "synchronised"):
            yield f"torchscript cannot compile what {name} does in Python. Choose --set train.torch.compiler=none."


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
    optional_settings=("train.batch_norm_momentum", "launch.interop_threads"),
    variable_shapes=True,
    section="torch",
    fill=fill,
    refusals=refusals,
)
