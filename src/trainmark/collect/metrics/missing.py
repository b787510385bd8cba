"""The reason that a metric gives when no member can be counted."""

from trainmark.collect.measured import Measured


def why_nothing_timed(measured: Measured) -> str:
    """Why there are no timings."""
    if not measured.finished:
        return "no member was trained to the end"
    return "every finished member was resumed after its last epoch, so none has timings of its own"
