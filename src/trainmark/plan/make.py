"""RunChoices + Site → RunConfig + Plan: resolves defaults, rejects invalid combinations, maps members."""

from collections.abc import Collection
from typing import Literal

from trainmark.data.facts import varies_in_shape
from trainmark.plan.compatible import check_compatible
from trainmark.plan.data_check import check_staging
from trainmark.plan.mapping import Scale, map_members, solve_scale
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.engine_offer import find_engine
from trainmark.spec.plan import Plan
from trainmark.spec.site import Site


def make_plan(choices: RunChoices, site: Site) -> tuple[RunConfig, Plan]:
    """Returns the fully resolved config, which repeats this run, and the plan."""
    scale = solve_scale(choices.ensemble, site)
    config = fill_defaults(choices, scale, site)
    check_compatible(config, scale.workers, site)
    plan = map_members(scale, site, config.launch)
    check_staging(config, plan, site)
    return config, plan


def fill_defaults(choices: RunChoices, scale: Scale, site: Site) -> RunConfig:
    """Resolves all unset choices; docs/benchmarks.md has the measurements behind each default."""
    launch, offer = choices.launch, find_engine(choices.train.engine)
    precision = choices.train.precision or default_precision(site, offer.precisions)
    train = choices.train.model_copy(update={"precision": precision})
    own = offer.fill(choices.model_copy(update={"train": train}), scale.workers, site)
    return RunConfig.model_validate(
        choices.model_dump()
        | {
            "ensemble": choices.ensemble.model_dump() | scale._asdict(),
            "train": train.model_dump(exclude_none=True) | own,
            "launch": {
                "allocator": default_allocator(site, is_frugal=_is_frugal(choices)),
                "loader_workers": default_loader_workers(site),
                **launch.model_dump(exclude_none=True),
            },
        }
    )


def default_allocator(site: Site, *, is_frugal: bool = False) -> Literal["tcmalloc", "glibc-tuned", "glibc-mmap"]:
    """Returns tcmalloc if the nodes have it, else tuned glibc; with accelerators the choice hardly matters.

    A heap that keeps freed memory fragments; where memory matters, blocks are mapped.
    """
    if is_frugal and not site.has_accelerators:
        return "glibc-mmap"
    return "tcmalloc" if "tcmalloc" in site.allocators and not site.has_accelerators else "glibc-tuned"


def _is_frugal(choices: RunChoices) -> bool:
    """Whether tensors differ in size from step to step, or the user trades time for memory."""
    own = choices.train.torch
    return varies_in_shape(choices) or own.recompute or own.offload != "none"


def default_loader_workers(site: Site) -> int:
    """Returns one data loader per core of the worker with accelerators, at most eight; one on CPUs."""
    cores = min(len(slot.cores) for group in site.groups for slot in group.slots)
    return min(8, cores) if site.has_accelerators else 1


def default_precision(site: Site, offered: Collection[str]) -> str:
    """Returns bf16 mixed precision on accelerators that support it; fp32 on CPUs, few of which have bf16 units.

    Falls back to the next precision, or to the first that the engine supports.
    """
    mixed = ("bf16-mixed", "fp16-mixed") if all(group.bf16 for group in site.groups) else ("fp16-mixed",)
    wanted = (*mixed, "fp32") if site.has_accelerators else ("fp32",)
    return next((name for name in wanted if name in offered), next(iter(offered)))
