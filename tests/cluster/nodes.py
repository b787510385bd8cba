"""A node of the cluster: processes in their own namespaces, with hostname, address and local storage."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.cluster import cpu, network, processes
from tests.cluster.instance import Instance

NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")
BOOT_SCRIPT = Path(__file__).with_name("boot.sh")


@dataclass(frozen=True)
class Node:
    """One node, on or off."""

    number: int
    name: str
    instance: Instance
    folder: Path
    local_storage_mebibytes: int

    @property
    def link(self) -> str:
        """This machine's end of the node's veth pair."""
        return self.instance.link(self.number)

    @property
    def address(self) -> str:
        """The node's address in the cluster's network."""
        return self.instance.address(self.number)

    @property
    def is_on(self) -> bool:
        """Whether the node's init process is alive."""
        return processes.find(self.instance.process_folder, self.name) is not None

    def start(self) -> int:
        """Starts the init process, which waits for its network; returns the pipe that signals it."""
        sys_folder = self.instance.run_folder / "sys" / self.name
        sys_folder.mkdir(parents=True, exist_ok=True)
        (self.instance.run_folder / "spool" / self.name).mkdir(parents=True, exist_ok=True)
        size = f"{self.local_storage_mebibytes}m"
        arguments = [self.name, self.address, str(self.folder), size, str(sys_folder)]
        reading, writing = os.pipe()
        processes.start(
            self.instance.process_folder,
            self.name,
            ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "sh", str(BOOT_SCRIPT), *arguments],
            self.folder / "logs" / f"{self.name}.out",
            {"SLURM_CONF": str(self.folder / "slurm.conf")},
            stdin=reading,
        )
        os.close(reading)
        return writing

    def init_pid(self, timeout_s: float = 10) -> int:
        """Returns the PID of the init process, whose namespaces are the node."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            unshare = processes.find(self.instance.process_folder, self.name)
            if unshare is None:
                raise RuntimeError(f"Node {self.name} is off. Its log is {self.folder / 'logs' / self.name}.out.")
            try:
                # The child is forked after the namespaces are created.
                if children := unshare.children():
                    return int(children[0].pid)
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.002)
        raise RuntimeError(f"Node {self.name} has no namespaces after {timeout_s} s.")

    def inside(self, command: Sequence[str]) -> list[str]:
        """Returns a command that runs the given one on the node."""
        return ["nsenter", "--target", str(self.init_pid()), *NAMESPACES, "--", *command]

    def power_off(self) -> None:
        """Kills all processes of the node."""
        # The link first: a machine without power does not close its connections.
        network.unplug(self.link)
        processes.end(self.instance.process_folder, self.name)

    def limit_cpu(self, cores: float) -> None:
        """Limits the CPU time of all processes of the node, also of those to come."""
        init = psutil.Process(self.init_pid())
        cpu.limit(self.link, [init.pid, *(each.pid for each in init.children(recursive=True))], cores)

    def limit(self, megabits_per_s: float) -> None:
        """Limits the node's bandwidth in both directions."""
        # This machine's end of the link sends what the node receives.
        subprocess.run(network.limit_command(self.link, megabits_per_s), check=True)
        subprocess.run(self.inside(network.limit_command("eth0", megabits_per_s)), check=True)

    def lift_limits(self) -> None:
        """Removes the node's limits, if any."""
        cpu.lift(self.link)
        subprocess.run(network.lift_command(self.link), capture_output=True)
        subprocess.run(self.inside(network.lift_command("eth0")), capture_output=True)


def boot(nodes: Sequence[Node], bridge: str) -> None:
    """Boots nodes concurrently."""
    pipes = [node.start() for node in nodes]
    try:
        network.plug(bridge, {node.link: node.init_pid() for node in nodes})
        for pipe in pipes:
            os.write(pipe, b"plugged\n")
    finally:
        for pipe in pipes:
            os.close(pipe)
