"""What a recipe leaves open, filled in with the fastest choice of the site's devices."""

from collections.abc import Iterator, Mapping
from typing import Literal

from trainmark.spec.config import RunConfig, TrainConfig
from trainmark.spec.site import Site
from trainmark.workloads.find import find_card

SCALED = ("fp16-mixed", "fp16")  # precisions that scale the loss, and look at the gradients before each step

# What oneDNN's blocked layout can be used with.
FOR_BLOCKS: dict[str, str | bool] = {
    "precision": "fp32",
    "compiler": "none",
    "parallel": "data",
    "batch_norm": "worker",
    "recompute": False,
    "offload": "none",
}


def fill_defaults(config: RunConfig, workers: int, site: Site) -> RunConfig:
    """The choices with nothing left to be guessed: docs/benchmarks.md holds the measurements behind each default."""
    train = config.train
    filled = train.model_copy(
        update={
            "precision": train.precision or default_precision(site),
            "compiler": train.compiler or default_compiler(config.model, train, site),
        }
    )
    layout = train.memory_format or default_layout(config, filled, site)
    filled = filled.model_copy(update={"memory_format": layout})
    graph = train.cuda_graph
    if graph is None:
        graph = site.has_accelerators and not reasons_against_graph(config.model, filled, workers)
    launch = config.launch
    readers = default_loader_workers(site) if launch.loader_workers is None else launch.loader_workers
    allocator = launch.allocator or default_allocator(site)
    launch = launch.model_copy(update={"allocator": allocator, "loader_workers": readers})
    return config.model_copy(update={"train": filled.model_copy(update={"cuda_graph": graph}), "launch": launch})


def default_allocator(site: Site) -> Literal["tcmalloc", "keep"]:
    """tcmalloc where the nodes have it; else glibc, set to keep what is freed. With accelerators it hardly matters."""
    return "tcmalloc" if "tcmalloc" in site.allocators and not site.has_accelerators else "keep"


def default_loader_workers(site: Site) -> int:
    """Beside an accelerator, a reader on each of the worker's cores, up to eight; on CPUs one beside the training."""
    cores = min(len(slot.cores) for group in site.groups for slot in group.slots)
    return min(8, cores) if site.has_accelerators else 1


def default_layout(config: RunConfig, train: TrainConfig, site: Site) -> str:
    """Channels last; on CPUs oneDNN's blocks for models that support them, NCHW where channels-last is unsafe."""
    if site.has_accelerators:
        return "channels-last"
    if find_card(config.model).blocked_layout and not any(differing(train, FOR_BLOCKS)):
        return "onednn"
    return "contiguous" if find_card(config.model).narrow_channels(config.model_settings) else "channels-last"


def default_precision(site: Site) -> str:
    """bf16 with fp32 master weights where accelerators compute in it; fp32 on CPUs, few of which have bf16 units."""
    if not site.has_accelerators:
        return "fp32"
    return "bf16-mixed" if all(group.bf16 for group in site.groups) else "fp16-mixed"


def default_compiler(model: str, train: TrainConfig, site: Site) -> str:
    """Inductor on accelerators, where it can be; on CPUs compiling costs a minute and gains nothing."""
    whole = (
        has_fixed_shapes(model)
        and train.parallel == "data"
        and train.precision != "int8"
        and train.memory_format != "onednn"
    )
    return "inductor" if site.has_accelerators and whole and not train.recompute else "none"


def differing(train: TrainConfig, needed: Mapping[str, str | bool]) -> Iterator[tuple[str, str, str]]:
    """Key, choice and needed choice of each setting that is not as needed, written as --set takes them."""
    for key, only in needed.items():
        chosen = getattr(train, key)
        if chosen != only:
            yield key, str(chosen).lower(), str(only).lower()


def has_fixed_shapes(model: str) -> bool:
    """Whether all tensors of a model have shapes that do not depend on the data."""
    return find_card(model).has_fixed_shapes


def reasons_against_graph(model: str, train: TrainConfig, workers: int) -> list[str]:
    """Why the whole step cannot be replayed as one CUDA graph; nothing where it can."""
    against = {
        f"shapes inside {model} depend on the data": not has_fixed_shapes(model),
        f"{workers} workers exchange gradients inside the step": workers > 1,
        f"{train.precision} looks at the gradients before each step": train.precision in SCALED,
        "int8 draws random numbers on the host": train.precision == "int8",
        "offloaded activations leave the device": train.offload != "none",
        "re-computation saves the state of the random generator": train.recompute,
        "torchscript specialises while it runs": train.compiler == "torchscript",
        f"train.momentum_correction={train.momentum_correction} changes momentum between steps": (
            train.momentum_correction != "as-published"
        ),
    }
    return [reason for reason, holds in against.items() if holds]
