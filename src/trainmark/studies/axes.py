"""Values of axes: what a user writes, and what the machine suggests."""

import math
from collections.abc import Callable, Sequence

from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.registry import did_you_mean
from trainmark.studies.study import Axis, Request, Values

MAX_VALUES = 1000


def parse_values(axis: Axis, text: str) -> Values:
    """Parses `1,2,4-8` or `fp32,bf16-mixed`; ranges are for whole numbers."""
    values: list[Setting] = []
    for part in (each.strip() for each in text.split(",")):
        values += _parse_part(axis, part, text)
    if len(values) > MAX_VALUES:
        raise ConfigError(f"--{axis.name} {text} has more than {MAX_VALUES:,} values. Choose fewer.")
    return tuple(dict.fromkeys(values))


def _parse_part(axis: Axis, part: str, text: str) -> Sequence[Setting]:
    if not part:
        raise ConfigError(f"--{axis.name} has an empty value: '{text}'. Example: --{axis.name} {_example(axis)}.")
    if not part.isprintable():
        raise ConfigError(f"--{axis.name} takes printable names, but got {part!r}.")
    if axis.kind is str:
        known = list(axis.choices()) if axis.choices else [part]
        if part not in known:
            raise ConfigError(
                f"--{axis.name} has no '{part}'.{did_you_mean(part, known)} Choose from: {', '.join(known)}."
            )
        return [part]
    try:
        first, dash, last = part.partition("-")
        if axis.kind is int and dash and first and last:
            numbers = range(int(first), min(int(last), int(first) + MAX_VALUES) + 1)
            if not numbers:
                raise ValueError
            values: Sequence[int | float] = numbers
        else:
            values = [int(part) if axis.kind is int else float(part)]
    except ValueError:
        what = "a whole number or a range" if axis.kind is int else "a number"
        raise ConfigError(f"--{axis.name} takes {what}, but got '{part}'. Example: {_example(axis)}.") from None
    if axis.kind is int and min(values) < axis.least:
        raise ConfigError(f"--{axis.name} takes whole numbers from {axis.least} on, but got '{part}'.")
    if axis.kind is float and not 0 < values[0] < math.inf:  # nan, too
        raise ConfigError(f"--{axis.name} takes finite numbers above 0, but got '{part}'.")
    return values


def _example(axis: Axis) -> str:
    return {int: "1,2,4-8", float: "0.5,1,2"}.get(axis.kind, "a,b")


def powers_of_two(most: int, least: int = 1) -> list[int]:
    """Returns least, 2·least, 4·least, …, and `most` itself: 6 → 1, 2, 4, 6."""
    values = [least]
    while values[-1] * 2 < most:
        values.append(values[-1] * 2)
    return values if values[-1] >= most else [*values, most]


def fixed(*values: Setting) -> Callable[[Request], Sequence[Setting]]:
    """The same values on every machine."""
    return lambda request: values


def divisors(number: int) -> list[int]:
    """Returns all divisors: 6 → 1, 2, 3, 6."""
    return [each for each in range(1, number + 1) if number % each == 0]
