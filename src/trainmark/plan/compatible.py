"""Which choices of a recipe cannot go together: each refusal gives the reason and the nearest valid choice."""

from collections.abc import Iterator

from trainmark.plan.device_defaults import SCALED, reasons_against_blocks, reasons_against_graph
from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.layout import SPLITTING
from trainmark.spec.registries import DATASETS, MODELS
from trainmark.spec.site import Site


def check_compatible(config: RunConfig, workers: int, site: Site) -> None:
    """Returns if the recipe can be trained by `workers` on this site; raises the first refusal otherwise."""
    train = config.train
    for refusal in (
        *_too_few_workers(train, workers),
        *_arithmetic(train, site),
        *_stages(config, workers),
        *_groups(train, workers),
        *_wire(train),
        *_optimizer(train),
        *_memory(train, site),
        *_speed(train, workers, site),
        *_data(config),
    ):
        raise PlanError(refusal)


def _too_few_workers(train: TrainConfig, workers: int) -> Iterator[str]:
    if workers > 1:
        return
    for key, chosen, alone in (
        ("parallel", train.parallel, "data"),
        ("communication", train.communication, "allreduce"),
        ("communication_precision", train.communication_precision, "fp32"),
        ("batch_norm", train.batch_norm, "worker"),
    ):
        if chosen != alone:
            yield (
                f"train.{key}={chosen} needs at least 2 workers a member, but there is 1. "
                f"Choose --workers 2, or --set train.{key}={alone}."
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
    if workers % stages:
        nearest = max(d for d in range(1, min(stages, workers) + 1) if workers % d == 0)
        yield (
            f"{workers} workers cannot form pipelines of {stages} stages: {workers} / {stages} is not whole. "
            f"Choose --set train.stages={nearest}, or --workers {max(1, workers // stages) * stages}."
        )
    layers = MODELS.constant(config.model, "NUM_LAYERS")
    if layers is not None and stages > layers:
        fitting = max(d for d in range(1, layers + 1) if workers % d == 0)
        yield (
            f"{config.model} has {layers} layers with weights, too few for {stages} stages. "
            f"Choose --set train.stages={fitting}, or --set train.parallel=sharded."
        )
    micro = 1 if train.parallel == "model" else train.micro_batches
    if train.batch_size % micro:
        nearest = max(d for d in range(1, micro) if train.batch_size % d == 0)
        yield (
            f"A batch of {train.batch_size} cannot be cut into {micro} equal micro-batches. "
            f"Choose --set train.micro_batches={nearest}, or a batch size that is a multiple of {micro}."
        )
    if train.parallel == "1f1b" and train.micro_batches < stages:
        more = next((m for m in range(stages, train.batch_size) if train.batch_size % m == 0), stages)
        yield (
            f"1f1b keeps every stage busy with a micro-batch of its own, but {train.micro_batches} are fewer than "
            f"{stages} stages. Choose --set train.micro_batches={more}, or --set train.parallel=gpipe."
        )


def _groups(train: TrainConfig, workers: int) -> Iterator[str]:
    group = train.communication_group
    if train.communication == "torus-2d":
        rows = [d for d in range(2, workers) if workers % d == 0]
        if not rows:
            yield (
                f"A 2D torus needs workers that form a rectangle, but {workers} is prime. "
                f"Choose --workers {workers + 1}, or --set train.communication=ring."
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
    if train.parallel != "data":
        for key, chosen, only in (
            ("communication", train.communication, "allreduce"),
            ("communication_precision", train.communication_precision, "fp32"),
        ):
            if chosen != only:
                yield (
                    f"train.{key}={chosen} works on the gradients of data parallelism, but train.parallel is "
                    f"{train.parallel}. Choose --set train.{key}={only}, or --set train.parallel=data."
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
    if train.offload == "host" and not site.has_accelerators:
        yield "On a CPU activations already lie in host memory. Choose --set train.offload=disk."
    if train.offload == "disk" and train.parallel in SPLITTING:
        yield (
            f"train.offload=disk keeps the activations of one pass at a time, but train.parallel={train.parallel} has "
            "several under way. Choose --set train.recompute=true, or --set train.parallel=sharded."
        )
    if train.memory_format != "onednn":
        return
    if site.has_accelerators:
        yield "The oneDNN layout is for CPUs. Choose --set train.memory_format=channels-last."
    for needed in reasons_against_blocks(train):
        key = needed.partition("=")[0]
        yield (
            f"The oneDNN layout works with train.{needed} only, but it is {str(getattr(train, key)).lower()}. "
            f"Choose --set train.memory_format=channels-last, or --set train.{needed}."
        )


def _speed(train: TrainConfig, workers: int, site: Site) -> Iterator[str]:
    if train.cuda_graph and not site.has_accelerators:
        yield "CUDA graphs need a GPU, but the site has none. Leave train.cuda_graph out."
    elif train.cuda_graph and (reasons := reasons_against_graph(train, workers)):
        yield f"The step cannot be one CUDA graph: {reasons[0]}. Choose --set train.cuda_graph=false."
    if train.compiler == "none":
        return
    for key, chosen, only in (("parallel", train.parallel, "data"), ("recompute", train.recompute, False)):
        if chosen != only:
            yield (
                f"{train.compiler} compiles the whole model, which train.{key}={str(chosen).lower()} takes apart. "
                f"Choose --set train.compiler=none, or --set train.{key}={str(only).lower()}."
            )
    if train.precision == "int8":
        yield f"{train.compiler} cannot see into int8 products. Choose --set train.compiler=none."


def _data(config: RunConfig) -> Iterator[str]:
    is_synthetic = getattr(DATASETS.load(config.dataset), "is_synthetic", False)
    if is_synthetic and config.train.augmentation != "none":
        yield "Synthetic images are never changed. Choose --set train.augmentation=none."
