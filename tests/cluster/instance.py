"""Instances: numbered slots for clusters on this machine, with lock, names, addresses and run-time folder."""

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cpu, network, processes

# Short, because socket paths are limited to 108 characters; in memory, so that Slurm saves its state fast.
RUN_FOLDER = Path("/run/trainmark-cluster")
MAX_INSTANCES = 32


@dataclass(frozen=True)
class Instance:
    """A numbered slot: everything that clusters on a machine must not share derives from the number."""

    number: int

    @property
    def lock_path(self) -> Path:
        """The file that is locked while the instance is in use."""
        return RUN_FOLDER / f"{self.number}.lock"

    @property
    def keeper(self) -> str:
        """The name of the process that holds the lock of a cluster left running."""
        return f"{self.number}.keeper"

    @property
    def run_folder(self) -> Path:
        """Sockets, spool folders, slurmctld's state and PIDs; removed with the cluster."""
        return RUN_FOLDER / str(self.number)

    @property
    def process_folder(self) -> Path:
        """One file per process of the cluster."""
        return self.run_folder / "processes"

    @property
    def record(self) -> Path:
        """The record of the cluster that uses the instance."""
        return self.run_folder / "cluster.json"

    @property
    def bridge(self) -> str:
        """The bridge between the nodes and this machine."""
        return f"tmk{self.number}"

    def link(self, node_number: int) -> str:
        """This machine's end of a node's veth pair."""
        return f"tmk{self.number}n{node_number}"

    def address(self, node_number: int) -> str:
        """A node's address, in 198.18.0.0/15, reserved for network benchmarks (RFC 2544)."""
        return f"198.18.{self.number}.{node_number}"

    @property
    def controller_address(self) -> str:
        """The address of this machine in the cluster's network."""
        return self.address(254)

    @property
    def controller_port(self) -> int:
        """slurmctld's port."""
        return 16800 + self.number


def all_instances() -> list[Instance]:
    """Returns all instances of a machine."""
    return [Instance(number) for number in range(MAX_INSTANCES)]


def try_lock(instance: Instance) -> int | None:
    """Locks an instance; returns the open lock file, or None if it is in use."""
    descriptor = os.open(instance.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def clean(instance: Instance) -> None:
    """Kills the processes and removes the network and files of a cluster; its lock must be held."""
    processes.kill_all(instance.process_folder)
    network.remove(instance.bridge)
    cpu.remove_all(instance.bridge)
    shutil.rmtree(instance.run_folder, ignore_errors=True)


def clean_stale() -> None:
    """Removes leftovers of killed clusters, whose lock is free but whose folder exists."""
    for instance in all_instances():
        if instance.run_folder.exists() and (lock := try_lock(instance)) is not None:
            clean(instance)
            os.close(lock)


def claim() -> tuple[Instance, int]:
    """Returns a free instance and its open lock file."""
    RUN_FOLDER.mkdir(mode=0o755, exist_ok=True)
    clean_stale()
    for instance in all_instances():
        if (lock := try_lock(instance)) is not None:
            clean(instance)
            return instance, lock
    raise RuntimeError(f"All {MAX_INSTANCES} instances are in use. Stop one: python -m tests.cluster down.")


def keep(instance: Instance, lock: int, log: Path) -> None:
    """Hands the lock to a sleeping process."""
    os.set_inheritable(lock, True)
    processes.start(RUN_FOLDER, instance.keeper, ["sleep", "infinity"], log, {})
    os.close(lock)


def release(instance: Instance) -> None:
    """Ends the process that holds the lock of a cluster left running."""
    processes.end(RUN_FOLDER, instance.keeper)
