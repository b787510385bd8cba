"""The error message of a rank that ran out of memory: the size of the request, and what to reduce."""

import re
import resource

import psutil

from trainmark.spec.units import show_bytes

# The messages of torch on a CPU (bytes), numpy, and torch on a GPU.
REQUESTED = (
    re.compile(r"you tried to allocate (\d+) bytes"),
    re.compile(r"Unable to allocate ([\d.]+ \w+) for an array"),
    re.compile(r"CUDA out of memory\. Tried to allocate ([\d.]+ \w+)"),
)
ADVICE = "Choose smaller images (data.height, data.width, data.image_size), a smaller train.batch_size or fewer samples"


def explain_out_of_memory(error: BaseException) -> str | None:
    """Returns one line about the failed allocation; None for other errors."""
    requested = next((found[1] for pattern in REQUESTED if (found := pattern.search(str(error)))), None)
    if requested is None:
        return None
    size = show_bytes(int(requested)) if requested.isdecimal() else requested
    if "CUDA" in str(error):
        return f"out of memory: the accelerator could not allocate {size}. {ADVICE}"
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    has = f"this machine has {show_bytes(psutil.virtual_memory().total)}"
    has = has if limit == resource.RLIM_INFINITY else f"the worker may take {show_bytes(limit)}"
    return f"out of memory: could not allocate {size}, and {has}. {ADVICE}"
