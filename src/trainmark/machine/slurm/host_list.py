"""Names of nodes in Slurm's short form: cn[001-128,130]."""

import re
from itertools import groupby

# The last number in a name, with what stands before and after it.
NUMBERED = re.compile(r"(.*?)(\d{1,9})(\D*)", re.ASCII)


def fold_names(names: tuple[str, ...]) -> str:
    """The names; those that differ in one number of as many digits alone are folded into brackets."""
    parts: dict[tuple[str, int, str], list[int]] = {}
    for name in names:
        found = NUMBERED.fullmatch(name)
        before, digits, after = found.groups() if found else (name, "", "")
        parts.setdefault((before, len(digits), after), []).extend([int(digits)] if digits else [])
    return ",".join(_folded(*part, sorted(numbers)) for part, numbers in parts.items())


def _folded(before: str, width: int, after: str, numbers: list[int]) -> str:
    # Neighbours have the same distance to their place in the list.
    runs = [
        [f"{number:0{width}d}" for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    ]
    ranges = ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{before}{ranges}{after}" if len(numbers) <= 1 else f"{before}[{ranges}]{after}"
