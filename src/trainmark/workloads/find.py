"""Lookup of workload sizes and model cards by name."""

from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.model_card import ModelCard
from trainmark.spec.registries import MODELS, WORKLOADS
from trainmark.spec.registry import did_you_mean, newest_version
from trainmark.spec.workload import Workload, WorkloadSize


def find_card(model: str) -> ModelCard:
    """The card of a model, by its name or by the "module:attribute" of a plug-in's."""
    card = MODELS.load(model)
    if not isinstance(card, ModelCard):
        raise ConfigError(
            f"The model '{model}' is a {type(card).__name__}, not a ModelCard. "
            "Write a card that names its builder, as docs/extending.md shows, and name that."
        )
    return card


def find_size(workload: str, size: str) -> WorkloadSize:
    """The workload in this size; raises UnknownNameError with the known sizes."""
    if workload not in WORKLOADS and (model := workload if workload in MODELS else newest_version(workload, MODELS)):
        raise UnknownNameError(
            f"'{workload}' is a model, not a workload. Choose --set model={model}; workloads: {', '.join(WORKLOADS)}."
        )
    record: Workload = WORKLOADS.load(workload)
    if size not in record.sizes:
        known = list(record.sizes)
        raise UnknownNameError(
            f"The workload '{workload}' has no size '{size}'.{did_you_mean(size, known)} Sizes: {', '.join(known)}."
        )
    return record.sizes[size]
