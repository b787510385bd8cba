"""Parsing scontrol's output: records, settings and partitions; folding node names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, zip_longest

from trainmark.spec.script_text import PLAIN

# The text format is stable from Slurm 20.11 to 24.11; the JSON differs between versions.
KEY = re.compile(r"(?:^|\s)([A-Z]\w*)=")
NULL_VALUES = {"", "(null)", "N/A", "n/a", "None", "NONE", "none"}


def read_records(text: str, first_key: str) -> list[dict[str, str]]:
    """Returns the records of `scontrol --oneliner show …` that start with `first_key`."""
    return [_read_record(line) for line in text.split("\n") if line.startswith(f"{first_key}=")]


def _read_record(line: str) -> dict[str, str]:
    """Returns the keys and their values, which may contain spaces."""
    found = list(KEY.finditer(line))
    record: dict[str, str] = {}
    for this, following in zip_longest(found, found[1:]):
        value = line[this.end() : following.start() if following else None].strip()
        # Reason and Comment are free text and come last: the first State is the node's.
        record.setdefault(this[1], value)
    return record


def read_settings_lines(text: str) -> dict[str, str]:
    """Returns the settings of `scontrol show config`."""
    settings: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            settings.setdefault(key.strip(), value.strip())
    return settings


def text_of(record: Mapping[str, str], key: str) -> str | None:
    """Returns the value of a key; None for any of Slurm's null values."""
    value = record.get(key, "")
    return None if value in NULL_VALUES else value


def number_of(record: Mapping[str, str], key: str) -> int | None:
    """Returns the integer value of a key; None if it is not one, such as UNLIMITED."""
    value = record.get(key, "")
    return int(value) if value.isascii() and value.isdigit() else None


def list_of(record: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Returns the items of a comma-separated list."""
    return tuple(word for word in (text_of(record, key) or "").split(",") if word)


# The last number in a name, with its prefix and suffix.
NUMBERED = re.compile(r"(.*?)(\d{1,9})(\D*)", re.ASCII)


def fold_names(names: tuple[str, ...]) -> str:
    """Returns names in Slurm's hostlist form; names that differ in one number of equal width are folded."""
    parts: dict[tuple[str, int, str], list[int]] = {}
    for name in names:
        found = NUMBERED.fullmatch(name)
        before, digits, after = found.groups() if found else (name, "", "")
        parts.setdefault((before, len(digits), after), []).extend([int(digits)] if digits else [])
    return ",".join(_folded(*part, sorted(numbers)) for part, numbers in parts.items())


def _folded(before: str, width: int, after: str, numbers: list[int]) -> str:
    # Consecutive numbers have a constant offset from their index.
    runs = [
        [f"{number:0{width}d}" for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    ]
    ranges = ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{before}{ranges}{after}" if len(numbers) <= 1 else f"{before}[{ranges}]{after}"


@dataclass(frozen=True)
class SlurmSettings:
    """A cluster's configuration, as far as jobs are concerned."""

    cluster: str
    version: str
    task_plugins: tuple[str, ...]
    constrains_cores: bool
    mpi: str | None
    node_storage: str | None
    needs_account: bool
    gives_whole_nodes: bool

    @property
    def binds_tasks(self) -> bool:
        """Whether tasks are bound to cores."""
        return any("affinity" in plugin for plugin in self.task_plugins)

    @property
    def confines_jobs(self) -> bool:
        """Whether the tasks of a step are confined to the step's cores."""
        return self.constrains_cores and any("cgroup" in plugin for plugin in self.task_plugins)


def read_settings(text: str) -> SlurmSettings:
    """Returns the settings, with Slurm's defaults for missing ones."""
    lines = read_settings_lines(text)
    enforced = re.split(r"\W+", lines.get("AccountingStorageEnforce", ""))
    return SlurmSettings(
        cluster=text_of(lines, "ClusterName") or "cluster",
        version=text_of(lines, "SLURM_VERSION") or "of unknown version",
        task_plugins=list_of(lines, "TaskPlugin"),
        constrains_cores=lines.get("ConstrainCores", "").lower() == "yes",
        mpi=text_of(lines, "MpiDefault"),
        node_storage=text_of(lines, "TmpFS"),
        needs_account=not {"associations", "limits", "qos", "safe", "wckeys", "all"}.isdisjoint(enforced),
        gives_whole_nodes="linear" in lines.get("SelectType", ""),
    )


TIME = re.compile(r"(?:(?P<days>\d{1,6})-)?(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d{1,6}):(?P<seconds>\d\d)", re.ASCII)


@dataclass(frozen=True)
class SlurmPartition:
    """A partition and its limits; None: unlimited."""

    name: str
    is_default: bool
    is_open: bool  # to users' jobs
    gives_whole_nodes: bool
    max_minutes: int | None
    max_nodes: int | None
    max_memory_mib_per_node: int | None
    max_memory_mib_per_cpu: int | None
    accounts: tuple[str, ...]  # allowed; empty: all
    qos: tuple[str, ...]


def read_partitions(text: str) -> tuple[SlurmPartition, ...]:
    """Returns the partitions, the default first, the others in Slurm's order."""
    partitions = [_partition(record) for record in read_records(text, "PartitionName")]
    return tuple(sorted(partitions, key=lambda partition: not partition.is_default))


def _partition(record: dict[str, str]) -> SlurmPartition:
    name = record["PartitionName"]
    return SlurmPartition(
        name=name,
        is_default=record.get("Default") == "YES",
        is_open=record.get("State") == "UP" and record.get("RootOnly") != "YES" and bool(PLAIN.fullmatch(name)),
        gives_whole_nodes=record.get("OverSubscribe") == "EXCLUSIVE",
        max_minutes=minutes_of(record.get("MaxTime", "")),
        max_nodes=number_of(record, "MaxNodes"),
        max_memory_mib_per_node=number_of(record, "MaxMemPerNode"),
        max_memory_mib_per_cpu=number_of(record, "MaxMemPerCPU"),
        accounts=_without_all(list_of(record, "AllowAccounts")),
        qos=_without_all(list_of(record, "AllowQos")),
    )


def minutes_of(time: str) -> int | None:
    """Returns the minutes of Slurm's DAYS-HOURS:MINUTES:SECONDS; None for UNLIMITED."""
    found = TIME.fullmatch(time)
    if not found:
        return None
    return max(1, int(found["days"] or 0) * 1440 + int(found["hours"] or 0) * 60 + int(found["minutes"]))


def _without_all(names: tuple[str, ...]) -> tuple[str, ...]:
    return () if "ALL" in names else names
