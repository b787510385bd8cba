"""Human-readable figures: FLOP/s with a prefix, bytes, seconds, counts."""

import re
from collections.abc import Sequence

# Linux supports at most 8192 CPUs; a far larger number is a typo.
MAX_CORES = 65536

_CORES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")


def with_prefix(value: float, unit: str, base: float = 1000.0) -> str:
    """`31.4 PFLOP/s` for 31.4e15 and FLOP/s: four digits and the prefix that fits."""
    magnitude = _magnitude(value, base)
    return f"{value / base**magnitude:.4g} {_PREFIXES[magnitude]}{unit}"


def _magnitude(value: float, base: float) -> int:
    """Returns the power of the base that leaves a number below the base."""
    magnitude, size = 0, abs(value)
    while size >= base and magnitude < len(_PREFIXES) - 1:
        size /= base
        magnitude += 1
    return magnitude


def show_bytes(value: float) -> str:
    """Bytes with a binary prefix: `1.5 GiB`."""
    text = with_prefix(value, "B", base=1024.0)
    number, unit = text.split(" ")
    return f"{number} {unit[0].upper()}iB" if len(unit) > 1 else text


def show_duration(seconds: float) -> str:
    """Seconds as `850 ms`, `12.3 s`, `4 min 05 s` or `2 h 03 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def show_value(value: float, unit: str) -> str:
    """A metric's value with its unit."""
    if unit in ("FLOP/s", "FLOP", "B/s"):
        return with_prefix(value, unit)
    if unit == "B":
        return show_bytes(value)
    if unit == "s":
        return show_duration(value)
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:.4g} {unit}".strip()


def show_interval(low: float, high: float, unit: str) -> str:
    """`3077 – 3646 samples/s`: two values, their unit once if it is the same."""
    (first, _, first_unit), (last, _, last_unit) = (show_value(bound, unit).partition(" ") for bound in (low, high))
    if first_unit != last_unit or " " in first_unit:  # as in 4 min 05 s
        return f"{first} {first_unit} – {last} {last_unit}".strip()
    return f"{first} – {last} {last_unit}".strip()


def show_with_interval(value: float, low: float, high: float, unit: str) -> str:
    """`31.4 (30.9 – 32.1) TFLOP/s`: all three with one prefix; an interval below the digits shown is left out."""
    largest = max(map(abs, (value, low, high)))
    if unit == "s" and largest >= 60:
        texts, name = [show_duration(each) for each in (value, low, high)], ""
    else:
        size, name, digits = _scale(largest, unit)
        texts = [f"{each / size:.{digits}g}" for each in (value, low, high)]
    middle, *ends = texts
    shown = middle if ends == [middle, middle] else f"{middle} ({' – '.join(ends)})"
    return f"{shown} {name}".strip()


def _scale(largest: float, unit: str) -> tuple[float, str, int]:
    """Returns the size of the unit that fits, its name, and the digits to show."""
    if unit in ("FLOP/s", "FLOP", "B/s"):
        magnitude = _magnitude(largest, 1000.0)
        return 1000.0**magnitude, f"{_PREFIXES[magnitude]}{unit}", 4
    if unit == "B":
        magnitude = _magnitude(largest, 1024.0)
        return 1024.0**magnitude, f"{_PREFIXES[magnitude].upper()}iB" if magnitude else "B", 4
    if unit == "s":
        return (1e-3, "ms", 3) if largest < 1 else (1.0, "s", 3)
    return (0.01, "%", 3) if unit == "share" else (1.0, unit, 4)


def counted(number: int, what: str) -> str:
    """`1 sample`, `1,200 samples`, `2 classes`: a count with its noun in singular or plural."""
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def show_shape(shape: Sequence[int]) -> str:
    """`3 × 224 × 224`."""
    return " × ".join(map(str, shape))


def show_cores(cores: tuple[int, ...]) -> str:
    """Core numbers as a Linux CPU list: `0-3,8`."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_cores(text: str) -> tuple[int, ...]:
    """Parses a Linux CPU list such as `0-3,8`."""
    cores: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        found = _CORES.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
        if not first <= last < MAX_CORES:
            raise ValueError(f"'{part}' is not a core or a range of cores; write them like 0-3,8")
        cores.extend(range(first, last + 1))
    return tuple(cores)
