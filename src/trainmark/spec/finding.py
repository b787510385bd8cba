"""Finding: one thing that was looked at before work is trusted to a machine or site."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """What was found, whether it is good, and what to do if it is not."""

    what: str
    verdict: Literal["good", "warning", "problem"]
    found: str
    fix: str = ""
