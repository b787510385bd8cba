"""Starting the cluster's daemons: munged and slurmctld."""

from pathlib import Path

from tests.cluster import processes
from tests.cluster.instance import Instance


def start_munge(instance: Instance, logs: Path) -> Path:
    """Starts munged; returns the socket on which it will listen."""
    place = instance.run_folder / "munge"
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={place}.{ending}" for option, ending in files.items()]
    command = ["munged", "--foreground", *options, f"--log-file={logs}/munged.log"]
    processes.start(instance.process_folder, "munged", command, logs / "munged.out", {})
    return place.with_suffix(".socket")


def start_controller(instance: Instance, logs: Path, conf: Path) -> None:
    """Starts slurmctld."""
    environment = {"SLURM_CONF": str(conf)}
    processes.start(instance.process_folder, "slurmctld", ["slurmctld", "-D"], logs / "slurmctld.out", environment)
