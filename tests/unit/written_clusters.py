"""What scontrol prints: of three made-up clusters, true to the formats of three versions, and of single nodes."""

from pathlib import Path

from trainmark.machine.draft import SlurmText

CLUSTERS = Path(__file__).parent / "clusters"


def written(cluster: str) -> SlurmText:
    """What scontrol prints on a cluster."""
    return SlurmText(*((CLUSTERS / cluster / f"{what}.txt").read_text() for what in ("config", "partition", "node")))


def node(**changes: str) -> str:
    """A line of a two-socket node, with some fields changed."""
    fields = {
        "NodeName": "n1",
        "Arch": "x86_64",
        "CoresPerSocket": "4",
        "CPUTot": "16",
        "Gres": "(null)",
        "RealMemory": "16384",
        "Sockets": "2",
        "State": "IDLE",
        "ThreadsPerCore": "2",
        "Partitions": "all",
    } | changes
    return " ".join(f"{key}={value}" for key, value in fields.items())


PARTITION = "PartitionName=all Default=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED State=UP MaxMemPerNode=UNLIMITED"


def small(*nodes: str, partition: str = PARTITION, settings: str = "TaskPlugin = task/affinity") -> SlurmText:
    return SlurmText(f"ClusterName = small\n{settings}\n", f"{partition}\n", "\n".join(nodes) + "\n")
