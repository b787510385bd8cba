"""One node of the cluster: processes in namespaces of their own, with their own name, address and local storage."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.cluster import processes

# First process of a node. It waits for its cable, then mounts what differs from the machine and runs Slurm's daemon.
# `wait` also reaps orphans; `sleep` keeps the node on when its daemon crashes.
BOOT = """
set -e
read -r plugged
name=$1 address=$2 etc=$3 local_storage=$4 size=$5 sys=$6
hostname "$name"
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
mount --bind "$etc/hosts" /etc/hosts
mount --bind "$etc/nsswitch.conf" /etc/nsswitch.conf
mount -t tmpfs -o "size=$size,mode=1777" local "$local_storage"
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t sysfs sysfs "$sys"
mount --rbind /sys/fs/cgroup "$sys/fs/cgroup"
mount --rbind "$sys" /sys
slurmd -D &
sleep infinity &
wait
"""


def start(process_folder: Path, name: str, log: Path, arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Starts a node's first process up to where it waits for its cable; the open pipe that tells it comes back."""
    reading, writing = os.pipe()
    namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = ["unshare", *namespaces, "sh", "-c", BOOT, "node", name, *arguments]
    processes.start(process_folder, name, command, log, environment, stdin=reading)
    os.close(reading)
    return writing


def wait_for_namespaces(process_folder: Path, name: str, patience_s: float = 10) -> int:
    """The number of the node's first process, once its namespaces are there."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        process = processes.find(process_folder, name)
        if process is None:
            raise RuntimeError(f"The first process of node {name} ended; its log says why.")
        try:
            # The child is made after the namespaces.
            if children := process.children():
                return int(children[0].pid)
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.002)
    raise RuntimeError(f"Node {name} made no namespaces within {patience_s} s.")


def tell_plugged(pipe: int) -> None:
    """Lets a node's first process go on."""
    os.write(pipe, b"plugged\n")
    os.close(pipe)


def inside(pid: int, command: Sequence[str]) -> list[str]:
    """The command that runs a command on the node of a first process."""
    return ["nsenter", "--target", str(pid), "--net", "--uts", "--ipc", "--mount", "--pid", "--", *command]
