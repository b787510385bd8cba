"""What a recipe leaves open, filled in with the fastest choice of the site's devices."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Literal

from trainmark.plan.scale import Scale
from trainmark.spec.config import RunChoices, RunConfig, TrainChoices
from trainmark.spec.site import Site
from trainmark.workloads.find import find_card

SCALED = ("fp16-mixed", "fp16")  # precisions that scale the loss, and look at the gradients before each step

# What oneDNN's blocked layout can be used with.
FOR_BLOCKS: dict[str, str | bool] = {
    "precision": "fp32",
    "torch.compiler": "none",
    "parallel": "data",
    "batch_norm": "worker",
    "torch.recompute": False,
    "torch.offload": "none",
}


def fill_defaults(choices: RunChoices, scale: Scale, site: Site) -> RunConfig:
    """The choices with nothing left open: docs/benchmarks.md holds the measurements behind each default."""
    train, launch = choices.train, choices.launch
    train = train.model_copy(update={"precision": train.precision or default_precision(site)})
    train = _with(train, compiler=train.torch.compiler or default_compiler(choices.model, train, site))
    train = _with(train, memory_format=train.torch.memory_format or default_layout(choices, train, site))
    if train.torch.cuda_graph is None:
        graph = site.has_accelerators and not reasons_against_graph(choices.model, train, scale.workers)
        train = _with(train, cuda_graph=graph)
    readers = default_loader_workers(site) if launch.loader_workers is None else launch.loader_workers
    return RunConfig.model_validate(
        choices.model_dump()
        | {
            "ensemble": choices.ensemble.model_dump() | scale._asdict(),
            "train": train.model_dump(),
            "launch": launch.model_dump()
            | {"allocator": launch.allocator or default_allocator(site), "loader_workers": readers},
        }
    )


def _with(train: TrainChoices, **settings: str | bool) -> TrainChoices:
    return train.model_copy(update={"torch": train.torch.model_copy(update=settings)})


def default_allocator(site: Site) -> Literal["tcmalloc", "keep"]:
    """tcmalloc where the nodes have it; else glibc, set to keep what is freed. With accelerators it hardly matters."""
    return "tcmalloc" if "tcmalloc" in site.allocators and not site.has_accelerators else "keep"


def default_loader_workers(site: Site) -> int:
    """Beside an accelerator, a reader on each of the worker's cores, up to eight; on CPUs one beside the training."""
    cores = min(len(slot.cores) for group in site.groups for slot in group.slots)
    return min(8, cores) if site.has_accelerators else 1


def default_layout(choices: RunChoices, train: TrainChoices, site: Site) -> str:
    """Channels last; on CPUs oneDNN's blocks for models that support them, NCHW where channels-last is unsafe."""
    if site.has_accelerators:
        return "channels-last"
    if find_card(choices.model).blocked_layout and not any(differing(train, FOR_BLOCKS)):
        return "onednn"
    return "contiguous" if find_card(choices.model).narrow_channels(choices.model_settings) else "channels-last"


def default_precision(site: Site) -> str:
    """bf16 with fp32 master weights where accelerators compute in it; fp32 on CPUs, few of which have bf16 units."""
    if not site.has_accelerators:
        return "fp32"
    return "bf16-mixed" if all(group.bf16 for group in site.groups) else "fp16-mixed"


def default_compiler(model: str, train: TrainChoices, site: Site) -> str:
    """Inductor on accelerators, where it can be; on CPUs compiling costs a minute and gains nothing."""
    whole = (
        has_fixed_shapes(model)
        and train.parallel == "data"
        and train.precision != "int8"
        and train.torch.memory_format != "onednn"
    )
    return "inductor" if site.has_accelerators and whole and not train.torch.recompute else "none"


def differing(train: TrainChoices, needed: Mapping[str, str | bool]) -> Iterator[tuple[str, str, str]]:
    """Key, choice and needed choice of each setting that is not as needed, written as --set takes them."""
    for key, only in needed.items():
        chosen = attrgetter(key)(train)
        if chosen != only:
            yield key, str(chosen).lower(), str(only).lower()


def has_fixed_shapes(model: str) -> bool:
    """Whether all tensors of a model have shapes that do not depend on the data."""
    return find_card(model).has_fixed_shapes


def reasons_against_graph(model: str, train: TrainChoices, workers: int) -> list[str]:
    """Why the whole step cannot be replayed as one CUDA graph; nothing where it can."""
    against = {
        f"shapes inside {model} depend on the data": not has_fixed_shapes(model),
        f"{workers} workers exchange gradients inside the step": workers > 1,
        f"{train.precision} looks at the gradients before each step": train.precision in SCALED,
        "int8 draws random numbers on the host": train.precision == "int8",
        "offloaded activations leave the device": train.torch.offload != "none",
        "re-computation saves the state of the random generator": train.torch.recompute,
        "torchscript specialises while it runs": train.torch.compiler == "torchscript",
        f"train.momentum_correction={train.momentum_correction} changes momentum between steps": (
            train.momentum_correction != "as-published"
        ),
    }
    return [reason for reason, holds in against.items() if holds]
