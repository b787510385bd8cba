"""Which choices of a recipe cannot go together: each refusal gives the reason and the nearest valid choice."""

from collections.abc import Iterator

from trainmark.plan.by_mpi import reasons_against_mpi
from trainmark.plan.device_defaults import FOR_BLOCKS, SCALED, differing, has_fixed_shapes, reasons_against_graph
from trainmark.plan.images import image_refusals
from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.layout import SPLITTING
from trainmark.spec.model_card import BLOCK_CHANNELS
from trainmark.spec.site import Site
from trainmark.spec.units import counted
from trainmark.workloads.find import find_card

PLAIN_EXCHANGE = {"communication": "allreduce", "communication_precision": "fp32"}


def check_compatible(config: RunConfig, workers: int, site: Site) -> None:
    """Returns if the recipe can be trained by `workers` on this site; raises the first refusal otherwise."""
    train = config.train
    for refusal in (
        *_whole_models(config, workers),
        *_too_few_workers(train, workers),
        *_arithmetic(train, site),
        *_stages(config, workers),
        *_groups(train, workers),
        *reasons_against_mpi(config, site),
        *_wire(train),
        *_optimizer(train),
        *_memory(train, site),
        *_unsafe_layout(config, site),
        *_speed(config, workers, site),
        *image_refusals(config),
    ):
        raise PlanError(refusal)


def _whole_models(config: RunConfig, workers: int) -> Iterator[str]:
    chosen = config.train.parallel
    if chosen in SPLITTING and find_card(config.model).num_layers is None:
        sharded = " or --set train.parallel=sharded" if workers > 1 else " (with several workers also sharded)"
        yield (
            f"{config.model} cannot be split by layers, as train.parallel={chosen} does. "
            f"Choose --set train.parallel=data{sharded}, and leave train.stages out."
        )


def _too_few_workers(train: TrainConfig, workers: int) -> Iterator[str]:
    if workers > 1:
        return
    for key, chosen, alone in differing(train, {"parallel": "data", "batch_norm": "worker"} | PLAIN_EXCHANGE):
        fewest = 4 if chosen == "torus-2d" else 2
        yield (
            f"train.{key}={chosen} needs at least {fewest} workers a member, but there is 1. "
            f"Choose --workers {fewest}, or --set train.{key}={alone}."
        )


def _arithmetic(train: TrainConfig, site: Site) -> Iterator[str]:
    if train.precision == "tf32" and not site.has_accelerators:
        yield "tf32 is a format of GPUs, but the site has none. Choose --set train.precision=fp32."
    if train.precision == "int8" and train.parallel != "data":
        yield (
            f"int8 training quantises whole layers, which train.parallel={train.parallel} does not leave in one place. "
            "Choose --set train.parallel=data, or --set train.precision=bf16-mixed."
        )
    if train.precision == "fp16" and train.parallel == "sharded":
        yield (
            "Pure fp16 keeps batch normalisation in fp32, but sharding wants one format in a layer. "
            "Choose --set train.precision=fp16-mixed, or --set train.parallel=data."
        )
    if train.precision in SCALED and train.communication == "parameter-server":
        yield (
            f"{train.precision} gives each worker's loss a scale of its own, which a parameter server cannot undo. "
            "Choose --set train.precision=bf16-mixed, or --set train.communication=allreduce."
        )
    if train.precision == "fp16" and train.optimizer in ("adam", "adamw", "adagrad", "lamb"):
        yield (
            f"{train.optimizer} keeps squared gradients, which vanish in pure fp16. "
            "Choose --set train.precision=fp16-mixed, or --set train.optimizer=sgd."
        )


def _stages(config: RunConfig, workers: int) -> Iterator[str]:
    train = config.train
    if train.parallel not in SPLITTING:
        if train.stages not in (None, 1):
            yield (
                f"train.stages={train.stages} splits a model's layers, but train.parallel={train.parallel} keeps "
                "them together. Choose --set train.parallel=gpipe, or leave train.stages out."
            )
        return
    stages = train.stages or workers
    layers = find_card(config.model).num_layers
    if layers is None:  # refused already
        return
    if stages == 1 < workers or workers % stages or stages > layers:
        yield _wrong_stages(config, stages, layers, workers)
    micro_batches = 1 if train.parallel == "model" else train.micro_batches
    fewest = stages if train.parallel == "1f1b" else 1
    if train.batch_size % micro_batches or micro_batches < fewest:
        yield _wrong_micro_batches(train, micro_batches, fewest)


def _wrong_stages(config: RunConfig, stages: int, layers: int, workers: int) -> str:
    if stages == 1:
        reason = f"train.parallel={config.train.parallel} with one stage splits nothing"
    elif workers % stages:
        reason = f"{workers} workers cannot form pipelines of {stages} stages: {workers} / {stages} is not whole"
    else:
        reason = f"{config.model} has {layers} layers with weights, too few for {stages} stages"
    fitting = [d for d in range(2, min(workers, layers) + 1) if workers % d == 0]
    choices = [f"--set train.stages={min(fitting, key=lambda d: abs(d - stages))}"] if fitting else []
    if 1 < stages <= layers and workers % stages:
        choices.append(f"--workers {max(1, workers // stages) * stages}")
    if config.train.stages is None:
        choices.append("--set train.parallel=sharded")
    return f"{reason}. Choose {', or '.join(choices) or '--workers 2'}."


def _wrong_micro_batches(train: TrainConfig, chosen: int, fewest: int) -> str:
    if train.batch_size % chosen:
        reason = f"A batch of {train.batch_size} cannot be cut into {chosen} equal micro-batches"
    else:
        reason = f"1f1b gives every stage a micro-batch of its own, but {chosen} are fewer than {fewest} stages"
    fitting = [m for m in range(fewest, train.batch_size + 1) if train.batch_size % m == 0]
    if not fitting:
        return f"{reason}. Choose a train.batch_size that is a multiple of {fewest}, or --set train.parallel=sharded."
    nearest = min(fitting, key=lambda m: abs(m - chosen))
    return f"{reason}. Choose --set train.micro_batches={nearest}."


def _groups(train: TrainConfig, workers: int) -> Iterator[str]:
    group = train.communication_group
    if train.communication == "torus-2d":
        rows = [d for d in range(2, workers) if workers % d == 0]
        if not rows:
            yield (
                f"A 2D torus needs workers that form a rectangle, but {workers} is prime. "
                f"Choose --workers {max(4, workers + 1)}, or --set train.communication=ring."
            )
        elif group is not None and group not in rows:
            yield (
                f"{workers} workers cannot form rows of {group}. Choose --set train.communication_group="
                f"{min(rows, key=lambda row: abs(row - group))}."
            )
    elif train.communication == "hierarchical":
        if group is not None and workers % group:
            nearest = max(d for d in range(1, min(group, workers) + 1) if workers % d == 0)
            yield f"{workers} workers cannot form groups of {group}. Choose --set train.communication_group={nearest}."
    elif group is not None:
        yield (
            f"train.communication={train.communication} has no groups, but train.communication_group is {group}. "
            "Leave it out, or choose --set train.communication=hierarchical."
        )


def _wire(train: TrainConfig) -> Iterator[str]:
    for key, chosen, only in differing(train, PLAIN_EXCHANGE) if train.parallel != "data" else ():
        yield (
            f"train.{key}={chosen} works on the gradients of data parallelism, but train.parallel is "
            f"{train.parallel}. Choose --set train.{key}={only}, or --set train.parallel=data."
        )
    if train.communication == "parameter-server" and train.momentum_correction != "as-published":
        yield (
            "A parameter server keeps its momentum as published. "
            "Choose --set train.momentum_correction=as-published, or --set train.communication=allreduce."
        )
    if train.communication_precision == "powersgd" and train.communication != "allreduce":
        yield (
            f"powersgd brings its own exchange, so train.communication={train.communication} cannot be used with it. "
            "Choose --set train.communication=allreduce, or --set train.communication_precision=int8."
        )
    if train.communication_precision == "powersgd" and train.precision in SCALED:
        yield (
            f"powersgd would keep the overflows that {train.precision} tries out in its memory of errors. "
            "Choose --set train.precision=bf16-mixed, or --set train.communication_precision=fp16."
        )


def _optimizer(train: TrainConfig) -> Iterator[str]:
    if train.nesterov and (train.optimizer != "sgd" or train.momentum == 0):
        yield (
            f"train.nesterov is for sgd with momentum, but the optimizer is {train.optimizer} with momentum "
            f"{train.momentum:g}. Choose --set train.nesterov=false, or sgd with a momentum above 0."
        )


def _memory(train: TrainConfig, site: Site) -> Iterator[str]:
    if train.torch.offload == "host" and not site.has_accelerators:
        yield "On a CPU activations are in host memory already. Choose --set train.torch.offload=disk."
    if train.torch.offload == "disk" and train.parallel in SPLITTING:
        yield (
            f"train.torch.offload=disk keeps the activations of one pass at a time, but train.parallel="
            f"{train.parallel} has several under way. Choose --set train.torch.offload=none (and recompute), or "
            "--set train.parallel=sharded."
        )
    if train.torch.memory_format != "onednn":
        return
    if site.has_accelerators:
        yield "The oneDNN layout is for CPUs. Choose --set train.torch.memory_format=channels-last."
    for key, chosen, only in differing(train, FOR_BLOCKS):
        yield (
            f"The oneDNN layout works with train.{key}={only} only, but it is {chosen}. "
            f"Choose --set train.torch.memory_format=channels-last, or --set train.{key}={only}."
        )


def _unsafe_layout(config: RunConfig, site: Site) -> Iterator[str]:
    narrow = find_card(config.model).narrow_channels(config.model_settings)
    if narrow and config.train.torch.memory_format == "channels-last" and not site.has_accelerators:
        yield (
            f"{config.model} has a strided 1×1 convolution of {counted(narrow, 'channel')}, whose gradient oneDNN "
            f"computes wrongly in channels-last below {BLOCK_CHANNELS}. Choose --set "
            f"train.torch.memory_format=contiguous, or --set "
            f"model_settings.{find_card(config.model).strided_1x1_input}={BLOCK_CHANNELS}."
        )


def _speed(config: RunConfig, workers: int, site: Site) -> Iterator[str]:
    train = config.train
    if train.torch.cuda_graph and not site.has_accelerators:
        yield "CUDA graphs need a GPU, but the site has none. Leave train.torch.cuda_graph out."
    elif train.torch.cuda_graph and (reasons := reasons_against_graph(config.model, train, workers)):
        yield f"The step cannot be one CUDA graph: {reasons[0]}. Choose --set train.torch.cuda_graph=false."
    if train.torch.compiler == "none":
        return
    if not has_fixed_shapes(config.model):
        yield f"Shapes inside {config.model} depend on the data. Choose --set train.torch.compiler=none."
    for key, chosen, only in differing(train, {"parallel": "data", "torch.recompute": False}):
        yield (
            f"{train.torch.compiler} compiles the whole model, which train.{key}={chosen} takes apart. "
            f"Choose --set train.torch.compiler=none, or --set train.{key}={only}."
        )
    if train.precision == "int8":
        yield f"{train.torch.compiler} cannot see into int8 products. Choose --set train.torch.compiler=none."
    for name in (train.precision, train.batch_norm):
        if train.torch.compiler == "torchscript" and name in ("fp16", "synchronised"):
            yield f"torchscript cannot compile what {name} does in Python. Choose --set train.torch.compiler=none."
