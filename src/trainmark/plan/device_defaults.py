"""What a recipe leaves open, filled in with the fastest choice of the site's devices."""

from trainmark.spec.config import TrainConfig
from trainmark.spec.site import Site

SCALED = ("fp16-mixed", "fp16")  # precisions that scale the loss, and look at the gradients before each step


def fill_defaults(train: TrainConfig, workers: int, site: Site) -> TrainConfig:
    """The recipe with nothing left to be guessed: docs/benchmarks.md holds the measurements behind each choice."""
    precision = train.precision or default_precision(site)
    compiler = train.compiler or default_compiler(train, site)
    filled = train.model_copy(update={"precision": precision, "compiler": compiler})
    graph = train.cuda_graph
    if graph is None:
        graph = site.has_accelerators and not reasons_against_graph(filled, workers)
    return filled.model_copy(update={"cuda_graph": graph})


def default_precision(site: Site) -> str:
    """bf16 with fp32 master weights where accelerators compute in it; fp32 on CPUs, few of which have bf16 units."""
    if not site.has_accelerators:
        return "fp32"
    return "bf16-mixed" if all(group.bf16 for group in site.groups) else "fp16-mixed"


def default_compiler(train: TrainConfig, site: Site) -> str:
    """Inductor on accelerators, where it can be; on CPUs compiling costs a minute and gains nothing."""
    whole = train.parallel == "data" and train.precision != "int8" and train.memory_format != "onednn"
    return "inductor" if site.has_accelerators and whole and not train.recompute else "none"


def reasons_against_graph(train: TrainConfig, workers: int) -> list[str]:
    """Why the whole step cannot be replayed as one CUDA graph; nothing where it can."""
    against = {
        f"{workers} workers exchange gradients inside the step": workers > 1,
        f"{train.precision} looks at the gradients before each step": train.precision in SCALED,
        "int8 draws random numbers on the host": train.precision == "int8",
        "offloaded activations leave the device": train.offload != "none",
        "torchscript specialises while it runs": train.compiler == "torchscript",
        f"train.momentum_correction={train.momentum_correction} changes momentum between steps": (
            train.momentum_correction != "as-published"
        ),
    }
    return [reason for reason, holds in against.items() if holds]
