"""A workload by name and size."""

from trainmark.spec.errors import UnknownNameError
from trainmark.spec.registries import MODELS, WORKLOADS
from trainmark.spec.registry import closest
from trainmark.spec.workload import Workload, WorkloadSize


def is_model(name: str) -> str | None:
    """The model of that name, or its newest version; None if there is none."""
    return name if name in MODELS else max((each for each in MODELS if each.startswith(f"{name}-v")), default=None)


def find_size(workload: str, size: str) -> WorkloadSize:
    """The workload in that size, or an error that names the sizes there are."""
    if workload not in WORKLOADS and (model := is_model(workload)):
        raise UnknownNameError(
            f"'{workload}' is a model, not a workload. Choose --set model={model}; workloads: {', '.join(WORKLOADS)}."
        )
    record: Workload = WORKLOADS.load(workload)
    if size not in record.sizes:
        known = list(record.sizes)
        raise UnknownNameError(
            f"The workload '{workload}' has no size '{size}'.{closest(size, known)} Sizes: {', '.join(known)}."
        )
    return record.sizes[size]
