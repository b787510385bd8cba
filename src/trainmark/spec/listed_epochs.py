"""ListedEpochs: increasing epochs as a setting; `[30, 60, 80]` in TOML, also `30,60,80` on the command line."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator


def parse_epochs(value: Any) -> tuple[float, ...]:
    """Returns the epochs of a list, a comma-separated string or a single number; raises unless they increase from 0."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    if isinstance(value, str):
        listed = [_number(part) for part in value.split(",")]
    is_number = all(isinstance(each, int | float) and not isinstance(each, bool) for each in listed)
    if not listed or not is_number or not all(map(math.isfinite, listed)):
        raise ValueError("must list epochs, such as 30,60,80")
    if any(after <= before for before, after in zip([0, *listed], listed, strict=False)):
        raise ValueError("must list increasing epochs above 0, such as 30,60,80")
    return tuple(map(float, listed))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


ListedEpochs = Annotated[tuple[float, ...], BeforeValidator(parse_epochs)]
