"""What a rank says when it runs out of memory: how much it asked for, and what to make smaller."""

import re

import psutil

from trainmark.spec.units import show_bytes

# As torch words it for a CPU (bytes), numpy, and torch for a GPU.
ASKED = (
    re.compile(r"you tried to allocate (\d+) bytes"),
    re.compile(r"Unable to allocate ([\d.]+ \w+) for an array"),
    re.compile(r"CUDA out of memory\. Tried to allocate ([\d.]+ \w+)"),
)
ADVICE = "Choose smaller images (data.height, data.width, data.image_size), a smaller train.batch_size or fewer samples"


def explain_out_of_memory(error: BaseException) -> str | None:
    """One line about the memory that was asked for at once; None for errors of other kinds."""
    asked = next((found[1] for pattern in ASKED if (found := pattern.search(str(error)))), None)
    if asked is None:
        return None
    size = show_bytes(int(asked)) if asked.isdecimal() else asked
    if "CUDA" in str(error):
        return f"out of memory: {size} more were asked for than the accelerator has left. {ADVICE}"
    there = show_bytes(psutil.virtual_memory().total)
    return f"out of memory: {size} were asked for at once, and this machine has {there}. {ADVICE}"
