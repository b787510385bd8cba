"""Text of scontrol taken apart: fields, names of nodes in short form, settings and partitions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, zip_longest

from trainmark.spec.script_text import PLAIN

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


@dataclass(frozen=True)
class SlurmSettings:
    """How a cluster treats jobs."""

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
        """Whether each task is bound to its own cores."""
        return any("affinity" in plugin for plugin in self.task_plugins)

    @property
    def confines_jobs(self) -> bool:
        """Whether all tasks of a job's step are kept on the cores of the step."""
        return self.constrains_cores and any("cgroup" in plugin for plugin in self.task_plugins)


def read_settings(text: str) -> SlurmSettings:
    """The settings, with Slurm's defaults for what the text does not say."""
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
    """What jobs of a partition may have; None where there is no limit."""

    name: str
    is_default: bool
    is_open: bool  # takes jobs of users
    gives_whole_nodes: bool
    max_minutes: int | None
    max_nodes: int | None
    max_memory_mib_per_node: int | None
    max_memory_mib_per_cpu: int | None
    accounts: tuple[str, ...]  # that may use it; none: all
    qos: tuple[str, ...]


def read_partitions(text: str) -> tuple[SlurmPartition, ...]:
    """The partitions, the default first, the others in Slurm's order."""
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
    """Whole minutes of Slurm's DAYS-HOURS:MINUTES:SECONDS; None for UNLIMITED."""
    found = TIME.fullmatch(time)
    if not found:
        return None
    return max(1, int(found["days"] or 0) * 1440 + int(found["hours"] or 0) * 60 + int(found["minutes"]))


def _without_all(names: tuple[str, ...]) -> tuple[str, ...]:
    return () if "ALL" in names else names
