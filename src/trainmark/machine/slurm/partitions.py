"""The partitions of `scontrol --oneliner show partition`."""

import re
from dataclasses import dataclass

from trainmark.machine.slurm.fields import list_of, number_of, read_records
from trainmark.spec.words import PLAIN

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
