"""Text of scontrol taken apart: records of `Key=value` on one line each, and lines of `Key = value`."""

import re
from collections.abc import Mapping
from itertools import zip_longest

# The text formats have these in common from Slurm 20.11 to 24.11; the JSON of each version differs.
KEY = re.compile(r"(?:^|\s)([A-Z]\w*)=")
NOTHING = {"", "(null)", "N/A", "n/a", "None", "NONE", "none"}


def read_records(text: str, first_key: str) -> list[dict[str, str]]:
    """The records of `scontrol --oneliner show …` whose lines begin with `first_key`."""
    return [_read_record(line) for line in text.split("\n") if line.startswith(f"{first_key}=")]


def _read_record(line: str) -> dict[str, str]:
    """Each key with its value, which may hold spaces."""
    found = list(KEY.finditer(line))
    record: dict[str, str] = {}
    for this, following in zip_longest(found, found[1:]):
        value = line[this.end() : following.start() if following else None].strip()
        # People write what they like into Reason and Comment. These come last: the first State is the node's.
        record.setdefault(this[1], value)
    return record


def read_settings_lines(text: str) -> dict[str, str]:
    """The settings of `scontrol show config`."""
    settings: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            settings.setdefault(key.strip(), value.strip())
    return settings


def text_of(record: Mapping[str, str], key: str) -> str | None:
    """The value of a key, or None where Slurm says in one of its ways that there is none."""
    value = record.get(key, "")
    return None if value in NOTHING else value


def number_of(record: Mapping[str, str], key: str) -> int | None:
    """The whole number at a key; None where there is none, as for UNLIMITED."""
    value = record.get(key, "")
    return int(value) if value.isascii() and value.isdigit() else None


def list_of(record: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word for word in (text_of(record, key) or "").split(",") if word)
