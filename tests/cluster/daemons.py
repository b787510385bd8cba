"""Start the daemons that serve the whole cluster: the one that vouches for users, and Slurm's controller."""

from pathlib import Path

from tests.cluster import processes
from tests.cluster.instance import Instance


def start_munge(instance: Instance, logs: Path) -> Path:
    """Starts munge; the socket at which it will listen comes back."""
    place = instance.run_folder / "munge"
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={place}.{ending}" for option, ending in files.items()]
    command = ["munged", "--foreground", *options, f"--log-file={logs}/munged.log"]
    processes.start(instance.process_folder, "munged", command, logs / "munged.out", {})
    return place.with_suffix(".socket")


def start_controller(instance: Instance, logs: Path, conf: Path) -> None:
    """Starts Slurm's controller."""
    environment = {"SLURM_CONF": str(conf)}
    processes.start(instance.process_folder, "slurmctld", ["slurmctld", "-D"], logs / "slurmctld.out", environment)
