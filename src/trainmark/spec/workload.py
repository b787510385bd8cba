"""Workload: model + dataset + task + quality metric + target + recipe, as plain data that needs no torch to read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainmark.spec.config import Setting


@dataclass(frozen=True)
class WorkloadSize:
    """One size of a workload. Parts are registry names, or "module:attribute" for a plug-in's own code."""

    model: str
    dataset: str
    task: str
    quality: str
    target_quality: float
    exponent: float
    recipe: Mapping[str, Setting]
    model_settings: Mapping[str, Setting] = field(default_factory=dict)
    data_settings: Mapping[str, Setting] = field(default_factory=dict)
    real_data: bool = False  # data.path must say where they lie: generated ones would not be this workload


@dataclass(frozen=True)
class Workload:
    """What is trained, in each of its sizes."""

    sizes: Mapping[str, WorkloadSize]
