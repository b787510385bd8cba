"""Rejects incompatible choices of a recipe, each with the reason and the nearest valid choice."""

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from importlib.util import find_spec
from typing import Literal

from trainmark.plan.data_check import image_refusals, shape_refusals
from trainmark.spec.config import RunConfig, Section, TrainConfig
from trainmark.spec.engine_offer import OPTIONAL_SETTINGS, EngineOffer, differing, find_engine
from trainmark.spec.errors import PlanError
from trainmark.spec.layout import SPLITTING
from trainmark.spec.registries import DATASETS, ENGINES, MODELS
from trainmark.spec.site import Site
from trainmark.workloads.find import find_card, find_size

USE_ALLREDUCE = "--set train.communication=allreduce"
DEFAULT_EXCHANGE = {"communication": "allreduce", "communication_precision": "fp32"}


def check_compatible(config: RunConfig, workers: int, site: Site) -> None:
    """Raises the first reason why the recipe cannot be trained by `workers` on this site."""
    train, offer = config.train, find_engine(config.train.engine)
    for refusal in (
        *_not_offered(config, offer, site),
        *_foreign_settings(train, offer),
        *_lacking_settings(config, offer),
        *_no_batch_norm(config),
        *_whole_models(config, workers),
        *_too_few_workers(train, workers),
        *_arithmetic(train, site),
        *_stages(config, workers),
        *_groups(train, workers),
        *_mpi(config, site),
        *_wire(train),
        *_optimizer(train),
        *_length(config, workers),
        *offer.refusals(config, workers, site),
        *image_refusals(config),
        *shape_refusals(config, offer),
    ):
        raise PlanError(refusal)


def _not_offered(config: RunConfig, offer: EngineOffer, site: Site) -> Iterator[str]:
    """Yields parts that the engine does not support; a plug-in's "module:attribute" cannot be checked."""
    engine, task = config.train.engine, find_size(config.workload, config.size).task
    for key, offered in offer.names().items():
        chosen = getattr(config.train, key)
        if chosen not in offered and ":" not in chosen:
            nearest = min(offered, key=lambda name: -SequenceMatcher(None, name, chosen).ratio())
            yield (
                f"The engine {engine} does not support train.{key}={chosen}. Choose --set train.{key}={nearest}"
                f"{_or_engine(name for name, other in _engines() if chosen in other.names()[key])}."
            )
    builders = find_card(config.model).builders
    if engine not in builders:
        able = " or ".join(name for name in MODELS if engine in find_card(name).builders)
        yield (
            f"The engine {engine} has no model {config.model}. Choose {f'--set model={able}' if able else 'another'}"
            f"{_or_engine(name for name in builders if name in ENGINES)}."
        )
    if task not in offer.tasks and ":" not in task:
        yield (
            f"The engine {engine} does not train {task}, as {config.workload} does. Choose a workload of "
            f"{' or '.join(offer.tasks)}{_or_engine(name for name, other in _engines() if task in other.tasks)}."
        )
    device: Literal["cpu", "cuda"] = "cuda" if site.has_accelerators else "cpu"
    if device not in offer.devices:
        there = f"accelerators, which site '{site.name}'" if device == "cuda" else f"CPUs, all that site '{site.name}'"
        yield (
            f"The engine {engine} does not train on {there} has. Choose another --site"
            f"{_or_engine(name for name, other in _engines() if device in other.devices)}."
        )


def _engines() -> Iterator[tuple[str, EngineOffer]]:
    return ((name, find_engine(name)) for name in ENGINES)


def _or_engine(able: Iterable[str]) -> str:
    names = " or ".join(able)
    return f", or --set train.engine={names}" if names else ""


def _foreign_settings(train: TrainConfig, offer: EngineOffer) -> Iterator[str]:
    """Yields settings of another engine, which would have no effect."""
    for name, field in TrainConfig.model_fields.items():
        section = getattr(train, name)
        if name == offer.section or not isinstance(section, Section):
            continue
        for key, value in section:
            if value != getattr(field.default, key):
                yield (
                    f"train.{name}.{key} is a setting of the engine {name}, but train.engine is {train.engine}. Remove "
                    f"it, or choose --set train.engine={name}."
                )


def _lacking_settings(config: RunConfig, offer: EngineOffer) -> Iterator[str]:
    """Yields settings that the engine does not have."""
    for key in OPTIONAL_SETTINGS:
        section, _, name = key.partition(".")
        chosen = getattr(config, section)
        if getattr(chosen, name) != type(chosen).model_fields[name].default and key not in offer.optional_settings:
            able = [name for name, other in _engines() if key in other.optional_settings]
            yield f"The engine {config.train.engine} does not support {key}. Remove it{_or_engine(able)}."


def _no_batch_norm(config: RunConfig) -> Iterator[str]:
    if config.train.batch_norm_momentum is not None and not find_card(config.model).has_batch_norm:
        yield (
            f"{config.model} has no batch normalisation, but train.batch_norm_momentum is "
            f"{config.train.batch_norm_momentum:g}. Remove it, or choose another model."
        )


def _whole_models(config: RunConfig, workers: int) -> Iterator[str]:
    chosen = config.train.parallel
    if chosen in SPLITTING and find_card(config.model).num_layers is None:
        sharded = " or --set train.parallel=sharded" if workers > 1 else " (with several workers also sharded)"
        yield (
            f"{config.model} cannot be split by layers, as train.parallel={chosen} does. "
            f"Choose --set train.parallel=data{sharded}, and remove train.stages."
        )


def _too_few_workers(train: TrainConfig, workers: int) -> Iterator[str]:
    if workers > 1:
        return
    for key, chosen, alone in differing(train, {"parallel": "data", "batch_norm": "worker"} | DEFAULT_EXCHANGE):
        fewest = 4 if chosen == "torus-2d" else 2
        yield (
            f"train.{key}={chosen} needs at least {fewest} workers per member, but there is 1. "
            f"Choose --workers {fewest}, or --set train.{key}={alone}."
        )


def _arithmetic(train: TrainConfig, site: Site) -> Iterator[str]:
    if train.precision == "tf32" and not site.has_accelerators:
        yield "tf32 needs GPUs, but the site has none. Choose --set train.precision=fp32."


def _stages(config: RunConfig, workers: int) -> Iterator[str]:
    train = config.train
    if train.parallel not in SPLITTING:
        if train.stages not in (None, 1):
            yield (
                f"train.stages={train.stages} splits a model's layers, but train.parallel={train.parallel} does "
                "not. Choose --set train.parallel=gpipe, or remove train.stages."
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
        reason = f"{workers} workers cannot form pipelines of {stages} stages: {workers} / {stages} is not an integer"
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
        reason = f"A batch of {train.batch_size} cannot be split into {chosen} equal micro-batches"
    else:
        reason = f"1f1b needs at least one micro-batch per stage, but {chosen} are fewer than {fewest} stages"
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
                f"A 2D torus needs a number of workers that factorises, but {workers} is prime. "
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
            "Remove it, or choose --set train.communication=hierarchical."
        )


def _wire(train: TrainConfig) -> Iterator[str]:
    for key, chosen, only in differing(train, DEFAULT_EXCHANGE) if train.parallel != "data" else ():
        yield (
            f"train.{key}={chosen} applies to data parallelism, but train.parallel is "
            f"{train.parallel}. Choose --set train.{key}={only}, or --set train.parallel=data."
        )
    if train.communication == "parameter-server" and train.momentum_correction != "as-published":
        yield (
            "A parameter server supports momentum as published only. "
            "Choose --set train.momentum_correction=as-published, or --set train.communication=allreduce."
        )


def _optimizer(train: TrainConfig) -> Iterator[str]:
    if train.nesterov and (train.optimizer != "sgd" or train.momentum == 0):
        yield (
            f"train.nesterov is for sgd with momentum, but the optimizer is {train.optimizer} with momentum "
            f"{train.momentum:g}. Choose --set train.nesterov=false, or sgd with a momentum above 0."
        )


def _length(config: RunConfig, workers: int) -> Iterator[str]:
    train = config.train
    if train.steps is not None and train.minutes is not None:
        yield (
            f"train.steps={train.steps} and train.minutes={train.minutes:g} both set the length of training. "
            "Remove one of them."
        )
    if train.minutes is not None and train.communication == "parameter-server" and workers > 1:
        yield (
            "train.minutes needs workers that end at a common step, but with a parameter server they are any number of "
            f"steps apart. Choose train.steps or train.epochs instead, or {USE_ALLREDUCE}."
        )
    if train.stop_at_target and config.evaluate.samples == 0:
        yield "train.stop_at_target needs a quality, but evaluate.samples is 0. Remove one of them."
    elif train.stop_at_target and getattr(DATASETS.load(config.dataset), "is_synthetic", False):
        yield (
            f"train.stop_at_target needs a quality, but the dataset {config.dataset} has none. "
            "Choose --set train.stop_at_target=false, or another dataset."
        )


def _mpi(config: RunConfig, site: Site) -> Iterator[str]:
    train, launcher = config.train, config.launch.launcher
    if train.communication != "mpi":
        return
    if launcher == "local":
        yield (
            "train.communication=mpi needs workers started by MPI, but the launcher 'local' starts them itself. "
            f"Choose --launcher mpi, or {USE_ALLREDUCE}."
        )
    if launcher == "slurm" and site.slurm.starter == "srun" and site.slurm.mpi in (None, "none"):
        yield (
            "train.communication=mpi needs workers started with PMI, but srun starts them without. "
            f'Set slurm.mpi = "pmix" in the site file, or choose {USE_ALLREDUCE}.'
        )
    if train.communication_precision != "fp32":
        yield (
            f"MPI reduces gradients in fp32, but train.communication_precision is {train.communication_precision}. "
            f"Choose --set train.communication_precision=fp32, or {USE_ALLREDUCE}."
        )
    if site.has_accelerators:
        yield (
            "train.communication=mpi reduces gradients in host memory, but the site has accelerators. "
            f"Choose {USE_ALLREDUCE}."
        )
    is_own = not (config.launch.python or site.python or site.container)  # of others the launcher finds out
    if is_own and find_spec("mpi4py") is None:
        yield (
            "train.communication=mpi needs mpi4py, which is not installed. Install it: pip install 'trainmark[mpi]', "
            f"or choose {USE_ALLREDUCE}."
        )
