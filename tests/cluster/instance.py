"""Which numbered place on this machine a cluster takes: its lock, names, addresses and run-time folder."""

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import network, processes

# Short, because the paths of sockets end at 108 characters; and in memory, so that Slurm's state is saved fast.
RUN_FOLDER = Path("/run/trainmark-cluster")
MAX_INSTANCES = 32


@dataclass(frozen=True)
class Instance:
    """One numbered place: everything that two clusters of a machine must not share follows from the number."""

    number: int

    @property
    def lock_path(self) -> Path:
        """The file whose lock says that the cluster of this number is in use."""
        return RUN_FOLDER / f"{self.number}.lock"

    @property
    def keeper(self) -> str:
        """The name of the process that holds the lock of a cluster which was left running."""
        return f"{self.number}.keeper"

    @property
    def run_folder(self) -> Path:
        """Sockets, spool folders, the controller's state and process numbers; gone when the cluster is."""
        return RUN_FOLDER / str(self.number)

    @property
    def process_folder(self) -> Path:
        """One file for each process that the cluster started."""
        return self.run_folder / "processes"

    @property
    def record(self) -> Path:
        """The file that says which cluster has this place."""
        return self.run_folder / "cluster.json"

    @property
    def bridge(self) -> str:
        """The network device that joins the nodes and this machine."""
        return f"tmk{self.number}"

    def link(self, node_number: int) -> str:
        """The network device at this machine's end of a node's cable."""
        return f"tmk{self.number}n{node_number}"

    def address(self, node_number: int) -> str:
        """A node's address: 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544)."""
        return f"198.18.{self.number}.{node_number}"

    @property
    def controller_address(self) -> str:
        """The address of this machine in the cluster's network."""
        return self.address(254)

    @property
    def controller_port(self) -> int:
        """Where the controller listens."""
        return 16800 + self.number


def all_instances() -> list[Instance]:
    """Every place that a machine has."""
    return [Instance(number) for number in range(MAX_INSTANCES)]


def try_lock(instance: Instance) -> int | None:
    """The open lock file of a place that nobody uses, otherwise None."""
    descriptor = os.open(instance.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def clean(instance: Instance) -> None:
    """Ends the processes and removes the network and files of a cluster, whoever started it; its lock must be held."""
    processes.kill_all(instance.process_folder)
    network.remove(instance.bridge)
    shutil.rmtree(instance.run_folder, ignore_errors=True)


def clean_stale() -> None:
    """Cleans what clusters left behind whose processes were killed: their lock is free, but their folder is there."""
    for instance in all_instances():
        if instance.run_folder.exists() and (lock := try_lock(instance)) is not None:
            clean(instance)
            os.close(lock)


def claim() -> tuple[Instance, int]:
    """A free place and its open lock file."""
    RUN_FOLDER.mkdir(mode=0o755, exist_ok=True)
    clean_stale()
    for instance in all_instances():
        if (lock := try_lock(instance)) is not None:
            clean(instance)
            return instance, lock
    raise RuntimeError(f"All {MAX_INSTANCES} places for clusters are in use. Stop one: python -m tests.cluster down.")


def keep(instance: Instance, lock: int, log: Path) -> None:
    """Hands the lock to a process that does nothing else."""
    os.set_inheritable(lock, True)
    processes.start(RUN_FOLDER, instance.keeper, ["sleep", "infinity"], log, {})
    os.close(lock)


def release(instance: Instance) -> None:
    """Ends the process that held the lock of a cluster which was left running."""
    processes.end(RUN_FOLDER, instance.keeper)
