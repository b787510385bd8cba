"""`variants` (CPU-TORCH Fig. 2–3): layouts, compilers, allocators and builds, in training and in inference."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainmark.plan.make import default_allocator
from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import WORKLOADS
from trainmark.spec.table import Cell, Table
from trainmark.studies.axes import fixed
from trainmark.studies.outcomes import Outcomes, PointOutcomes, Summary
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Overrides, Request, Study
from trainmark.studies.tables import Measure, build_table, metric, number
from trainmark.studies.variants_figures import (
    INFERENCE,
    TRAINING,
    Phase,
    bar_name,
    cases_of,
    short_names,
    variant_figures,
)
from trainmark.studies.verdict import verdict

MODELS = ("resnet34", "resnext50-32x4d", "wide-resnet101-2")  # of the document
DATASETS = ("pacs", "cifar10")
ALLOCATORS = ("glibc-tuned", "system")  # glibc's, which every node has
THIS_BUILD = "this Python"
BASES = ("variant", "allocator", "python")  # axes whose values are compared with one of them
BUILD = ("torch_compiler", "torch_cxx_flags", "torch_blas", "torch_lapack", "torch_onednn", "torch_openmp", "torch_isa")
VERSIONS = ("python", "python_executable", "torch", "torch_git")


def _torch(compiler: str, memory_format: str, **more: Setting) -> Overrides:
    """Everything that a variant could leave to the plan, so that two of them differ in what they are called by."""
    chosen: Overrides = {"compiler": compiler, "memory_format": memory_format, "cuda_graph": False, **more}
    return {f"train.torch.{name}": value for name, value in chosen.items()}


SETTINGS: dict[str, Overrides] = {
    "eager": _torch("none", "contiguous"),
    "channels-last": _torch("none", "channels-last"),
    "onednn": _torch("none", "onednn"),
    "torchscript": _torch("torchscript", "contiguous"),
    "inductor": _torch("inductor", "contiguous"),
    "no-onednn": _torch("none", "contiguous", onednn=False),
}


def _allocators(request: Request) -> Sequence[Setting]:
    """The plan's first; on CPUs all others that the nodes have."""
    default = default_allocator(request.site)
    others = () if request.site.has_accelerators else (*ALLOCATORS, *request.site.allocators)
    return tuple(dict.fromkeys((default, *others)))


def _models(request: Request) -> Sequence[Setting]:
    return MODELS if request.base.size == "full" else (request.base.model,)


def _datasets(request: Request) -> Sequence[Setting]:
    return DATASETS if request.base.size == "full" else (request.base.dataset,)


def _points(request: Request) -> list[Point]:
    variants, allocators, pythons, models, datasets = (axis.values(request) for axis in VARIANTS.axes)
    _check_folders(request, list(map(str, datasets)))
    has_builds = any(python != THIS_BUILD for python in pythons)
    first = _first("eager", variants)
    # Other allocators are compared with eager alone: all pairs would be many runs that say little.
    pairs = [*((name, allocators[0]) for name in variants), *((first, name) for name in allocators[1:])]
    return [
        _point(request, str(variant), allocator, str(python) if has_builds else None, model, str(dataset))
        for dataset in datasets
        for model in models
        for python in pythons
        for variant, allocator in pairs
    ]


def _check_folders(request: Request, datasets: Sequence[str]) -> None:
    """Raises if points would differ in the folder of their dataset alone, or all are real data without one."""
    names = [dataset.partition("=")[0] for dataset in datasets]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--dataset has {twice[0]} more than once. Compare folders in two studies.")
    real = WORKLOADS.load(request.base.workload).sizes if request.base.size == "full" else {}
    if all(dataset in real for dataset in datasets):
        example = ",".join(f"{dataset}=DIR" for dataset in datasets)
        raise ConfigError(
            f"Size full trains on real data, but data.path of {' and '.join(datasets)} is not set. Choose --dataset "
            f"{example} (docs/workloads/{request.base.workload}.md says how to get them), or --dataset synthetic."
        )


def _point(
    request: Request, variant: str, allocator: Setting, python: str | None, model: Setting, dataset: str
) -> Point:
    """Returns a point; `python` is None if all points have this one."""
    name, _, path = dataset.partition("=")
    at_build = {} if python is None else {"python": python}
    build = {} if python in (None, THIS_BUILD) else {"launch.python": interpreter(str(python))}
    return Point(
        at={"variant": variant, "allocator": allocator, **at_build, "model": model, "dataset": name},
        settings={
            "ensemble.members": 1,
            "ensemble.workers": 1,
            "model": model,
            **_data(request, name),
            **({"data.path": path} if path else {}),
            **SETTINGS[variant],
            "launch.allocator": allocator,
            **build,
        },
    )


def _data(request: Request, dataset: str) -> Overrides:
    """The dataset; at full size with the recipe of the workload's size of that name, if there is one."""
    if request.base.size != "full":
        return {"dataset": dataset}
    if dataset in WORKLOADS.load(request.base.workload).sizes:
        return {"size": dataset, "dataset": dataset}
    return {"dataset": dataset, "train.augmentation": "none"}  # the recipe's is for other images


def interpreter(python: str) -> str:
    """Returns the Python of an environment that is given as its folder or as the interpreter itself."""
    last = python.rstrip("/").rpartition("/")[2]
    return python if re.fullmatch(r"python[\d.]*", last) else f"{python.rstrip('/')}/bin/python"


def _first(wanted: str, values: Sequence[Any]) -> Any:
    return wanted if wanted in values else values[0]


def _improvement(outcomes: Outcomes, phase: Phase, name: str, base: Overrides, base_name: str) -> Measure:
    """Speed over that of the point with the coordinates of `base`, within rounds, minus 1."""

    def of(point: PointOutcomes) -> Summary | None:
        below = outcomes.first(**{**point.at, **base})
        found = point.ratio(below, phase.speed) if below else None
        return found.shifted(-1) if found else None

    return Measure(name, "share", f"{phase.name} over {base_name}", of, source=phase.speed)


def _analyse(outcomes: Outcomes) -> Table:
    at = {name: list(dict.fromkeys(point.at.get(name, THIS_BUILD) for point in outcomes.points)) for name in BASES}
    eager = {"variant": _first("eager", at["variant"]), "allocator": at["allocator"][0]}
    measures = [
        metric(TRAINING.speed, "training"),
        _improvement(outcomes, TRAINING, TRAINING.over_variant, eager, eager["variant"]),
        metric("epoch_time_s"),
        metric(INFERENCE.speed, "inference"),
        _improvement(outcomes, INFERENCE, INFERENCE.over_variant, eager, eager["variant"]),
        metric("inference_latency_p50_s"),
        metric("inference_latency_p99_s"),
    ]
    if len(at["python"]) > 1:
        first, name = next(iter(short_names(at["python"]).items()))
        measures += [
            _improvement(outcomes, p, p.over_build, {"python": str(first)}, name) for p in (TRAINING, INFERENCE)
        ]
    table = build_table(outcomes, measures)
    builds = dict(_builds(outcomes))
    findings = [*_fastest(outcomes, table, eager), *(_describe(name, build) for name, build in builds.items())]
    return table.model_copy(update={"findings": tuple(findings), "facts": {**eager, "builds": builds}})


def _builds(outcomes: Outcomes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields each Python with how its torch was built, as its workers found."""
    for name in dict.fromkeys(str(point.at.get("python", THIS_BUILD)) for point in outcomes.points):
        points = [point for point in outcomes.points if str(point.at.get("python", THIS_BUILD)) == name]
        software = next((result.software for point in points for result in point.results()), {})
        yield name, {key: str(software[key]) for key in (*VERSIONS, *BUILD) if key in software}


def _describe(name: str, build: dict[str, str]) -> str:
    """`this Python: torch 2.13.0; compiler GCC 13.3; BLAS MKL 2024.2`."""
    shown = {"compiler": "torch_compiler", "BLAS": "torch_blas", "oneDNN": "torch_onednn"}
    parts = [f"{what} {build[key]}" for what, key in {"torch": "torch", **shown}.items() if key in build]
    return f"{name}: {'; '.join(parts) or 'no run has a Result'}"


def _fastest(outcomes: Outcomes, table: Table, eager: dict[str, Setting]) -> Iterator[str]:
    """`resnet34 on pacs: fastest in training: onednn (+35 % over eager), 1.2 (1.1 to 1.3) times that of inductor`."""
    builds = short_names(table.values("python"))
    for case in cases_of(table):
        where = f"{case['model']} on {case['dataset']}"
        where += f" with {builds[case['python']]}" if "python" in case else ""
        for phase in (TRAINING, INFERENCE):

            def name(point: PointOutcomes, phase: Phase = phase) -> str:
                return _with_gain(table.where(**point.at)[0], phase, eager)

            if found := verdict(outcomes.where(**case), phase.speed, name, f"fastest in {phase.name}"):
                yield f"{where}: {found}"


def _with_gain(row: Mapping[str, Cell], phase: Phase, eager: dict[str, Setting]) -> str:
    gain, is_base = number(row, phase.over_variant), all(row[name] == value for name, value in eager.items())
    more = "" if is_base or gain is None else f" ({100 * gain:+.0f} % over {eager['variant']})"
    return f"{bar_name(row, eager)}{more}"


VARIANTS = Study(
    name="variants",
    title="Variants",
    description="training and inference with other layouts, compilers, allocators and builds, against plain eager mode",
    documents="CPU-TORCH Fig. 2–3, Tables 5–6",
    axes=(
        Axis(
            "variant",
            f"any of {', '.join(SETTINGS)}",
            lambda request: tuple(SETTINGS),
            fixed("eager", "channels-last", "onednn", "torchscript"),  # inductor compiles for a minute
            kind=str,
            choices=lambda: SETTINGS,
        ),
        Axis("allocator", "allocators", _allocators, lambda request: _allocators(request)[:1], str, "launch.allocator"),
        Axis("python", "Python environments with other builds", fixed(THIS_BUILD), kind=str, setting="launch.python"),
        Axis("model", "models", _models, kind=str, setting="model"),
        Axis("dataset", "datasets, as NAME or NAME=FOLDER", _datasets, kind=str, setting="dataset"),
    ),
    points=_points,
    analyse=_analyse,
    figures=variant_figures,
    settings={
        "": {"measure.ceiling": False, "measure.inference": True, "evaluate.out_of_bag": False, "dataset": "synthetic"},
        "tiny": {"data.num_train": 640, "train.epochs": 3, "measure.inference_seconds": 0.5},
        "smallest": {"train.epochs": 1, "measure.inference_seconds": 0.2},
        "full": {
            "train.batch_size": 128,
            "train.reference_batch_size": 128,
            "train.epochs": 2,
            "train.warmup_epochs": 0,
            "measure.inference_seconds": 10.0,
        },
    },
    repeats=5,
)
