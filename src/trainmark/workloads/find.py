"""A workload by name and size."""

from trainmark.spec.errors import UnknownNameError
from trainmark.spec.registries import WORKLOADS
from trainmark.spec.registry import closest
from trainmark.spec.workload import Workload, WorkloadSize


def find_size(workload: str, size: str) -> WorkloadSize:
    """The workload in that size, or an error that names the sizes there are."""
    record: Workload = WORKLOADS.load(workload)
    if size not in record.sizes:
        known = list(record.sizes)
        raise UnknownNameError(
            f"The workload '{workload}' has no size '{size}'.{closest(size, known)} Sizes: {', '.join(known)}."
        )
    return record.sizes[size]
