"""Workload: model + dataset + task + quality metric + target + recipe, as plain data readable without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainmark.spec.config import Setting


@dataclass(frozen=True)
class DataFacts:
    """Size and shape of a dataset; None where unknown."""

    num_train: int | None = None
    num_eval: int | None = None
    num_classes: int | None = None
    sample_shape: tuple[int, ...] | None = None
    is_simulated: bool = False
    num_skipped: int = 0  # samples that the user leaves out (data.skip); not among the others


@dataclass(frozen=True)
class WorkloadSize:
    """One size of a workload. Parts are registry names, or "module:attribute" for a plug-in's own code."""

    model: str
    dataset: str
    task: str
    quality: str
    target_quality: float
    exponent: float
    recipe: Mapping[str, Setting | Mapping[str, Setting]]
    model_settings: Mapping[str, Setting] = field(default_factory=dict)
    data_settings: Mapping[str, Setting] = field(default_factory=dict)
    # The published dataset; data.path is then required, as generated data would be another workload.
    real_data: DataFacts | None = None


@dataclass(frozen=True)
class Workload:
    """What is trained, in each of its sizes."""

    sizes: Mapping[str, WorkloadSize]
