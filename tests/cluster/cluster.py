"""A Slurm cluster on this machine: start and stop it, and make it fail."""

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.cluster import instance as places
from tests.cluster import network, nodes, processes, slurm_conf
from tests.cluster.instance import Instance
from tests.cluster.slurm_conf import Shape

# What Slurm calls a node that does not answer ends in one of these.
NOT_ANSWERING = ("*", "unknown")


class Cluster:
    """A cluster whose files lie in a folder that all nodes see, as a shared file system."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        cores: int | None = None,
        *,
        local_storage_mebibytes: int = 1024,
        max_array_size: int = 1001,
    ) -> None:
        """A cluster yet to be started; a node has as many cores as this process may use, if not told otherwise."""
        self.folder = folder.resolve()
        self.shape = Shape(
            num_nodes=nodes,
            cores_per_node=cores or len(os.sched_getaffinity(0)),
            memory_per_node_mebibytes=psutil.virtual_memory().total // nodes // 2**20,
            local_storage_mebibytes=local_storage_mebibytes,
            max_array_size=max_array_size,
        )
        self._instance: Instance | None = None
        self._lock: int | None = None

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """The running cluster of a folder, as another process started it."""
        stored = json.loads((folder / "cluster.json").read_text())
        cluster = cls(folder)
        cluster.shape = Shape(**stored["shape"])
        cluster._instance = Instance(stored["instance"])
        return cluster

    # What it is

    @property
    def instance(self) -> Instance:
        """The place of a cluster that was started."""
        if self._instance is None:
            raise RuntimeError(f"The cluster in {self.folder} is not running. Call start() first.")
        return self._instance

    @property
    def node_names(self) -> list[str]:
        """n1, n2, …"""
        return self.shape.node_names

    @property
    def local_storage(self) -> Path:
        """The folder that is another one on each node, with a limited size."""
        return self.folder / "local"

    @property
    def logs(self) -> Path:
        """What the daemons write."""
        return self.folder / "logs"

    def environment(self) -> dict[str, str]:
        """The variables that Slurm's and Open MPI's commands need for this cluster."""
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    # Life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, patience_s: float = 60) -> None:
        """Returns when all nodes are idle."""
        self._instance, self._lock = places.claim()
        try:
            self._write_files()
            network.create(self.instance.bridge, self.instance.controller_address)
            self._start_munge()
            self._spawn_controller()
            self._boot(self.node_names)
            self.wait_until(lambda: self._count_idle() == self.shape.num_nodes, "all nodes are idle", patience_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends everything of the cluster; the folder stays, with the logs."""
        if self._instance is not None:
            places.clean(self._instance)
            self._instance = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        (self.folder / "cluster.json").unlink(missing_ok=True)

    def leave_running(self) -> None:
        """Lets the cluster outlive this process: a process of its own holds the lock from now on."""
        if self._lock is not None:
            os.set_inheritable(self._lock, True)
            self._start_process("keeper", ["sleep", "infinity"])
            os.close(self._lock)
            self._lock = None

    def run(self, *command: str, timeout_s: float = 60) -> str:
        """The output of a command that is run here, with the cluster's variables; raises when it fails."""
        return self._run(command, timeout_s)

    def run_on(self, node: str, *command: str, timeout_s: float = 60) -> str:
        """The output of a command that is run on a node, past Slurm; raises when it fails."""
        return self._run(nodes.inside(self.first_process(node), command), timeout_s)

    # Faults

    def node_state(self, node: str) -> str:
        """What Slurm says of a node: idle, allocated, mixed, down, … and a * when it does not answer."""
        return self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()

    def set_down(self, node: str) -> None:
        """An administrator takes a node out of service: its jobs end at once."""
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def set_up(self, node: str) -> None:
        """An administrator takes a node back into service."""
        self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait_for_answer(node)

    def power_off(self, node: str) -> None:
        """Ends everything of a node at once, without a word to anybody."""
        network.unplug(self._link(node))
        processes.end(self.instance.process_folder, node)

    def power_on(self, node: str) -> None:
        """Starts a node again, with empty local storage, and returns when Slurm may use it."""
        self._boot([node])
        self.wait_for_answer(node)

    def cut_network(self, node: str) -> None:
        """Packets from and to a node are lost."""
        network.set_carrier(self._link(node), up=False)

    def mend_network(self, node: str) -> None:
        """Packets from and to a node arrive again."""
        network.set_carrier(self._link(node), up=True)

    def limit_bandwidth(self, megabits_per_s: float) -> None:
        """Every node sends and receives at no more than a rate, until the limits are lifted."""
        self._limit_file.write_text(str(megabits_per_s))
        self._apply_limit(self.node_names)

    def lift_limits(self) -> None:
        """Every node sends and receives as fast as the machine can."""
        self._limit_file.unlink(missing_ok=True)
        for node in self.node_names:
            if processes.find(self.instance.process_folder, node):
                subprocess.run(network.lift_command(self._link(node)), capture_output=True)
                on_node = nodes.inside(self.first_process(node), network.lift_command("eth0"))
                subprocess.run(on_node, capture_output=True)

    def stop_controller(self) -> None:
        """Ends Slurm's controller, which saves its state; jobs go on."""
        processes.end(self.instance.process_folder, "slurmctld", signal.SIGTERM)

    def start_controller(self) -> None:
        """Starts Slurm's controller with its saved state and returns when it answers."""
        self._spawn_controller()
        self.wait_until(self._controller_answers, "the controller answers")

    def restart_controller(self) -> None:
        """Stops and starts Slurm's controller."""
        self.stop_controller()
        self.start_controller()

    # Waiting

    def wait_until(self, holds: Callable[[], bool], what: str, patience_s: float = 60) -> float:
        """The seconds until something holds; raises when that takes too long."""
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > patience_s:
                raise TimeoutError(f"Waited {patience_s} s, but not: {what}. See the logs in {self.logs}.")
            time.sleep(0.05)
        return time.monotonic() - begun

    def wait_for_answer(self, node: str, patience_s: float = 60) -> float:
        """The seconds until Slurm may use a node."""

        def answers() -> bool:
            state = self.node_state(node)
            return not state.endswith(NOT_ANSWERING) and not state.startswith("down")

        return self.wait_until(answers, f"node {node} answers", patience_s)

    # Parts of the above

    def _run(self, command: Iterable[str], timeout_s: float) -> str:
        environment = {**os.environ, **self.environment()}
        done = subprocess.run(list(command), env=environment, capture_output=True, text=True, timeout=timeout_s)
        if done.returncode:
            raise RuntimeError(f"{list(command)} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def _number(self, node: str) -> int:
        return self.node_names.index(node) + 1

    def _link(self, node: str) -> str:
        return self.instance.link(self._number(node))

    def first_process(self, node: str) -> int:
        """The number of the process with which a node began; its namespaces are the node."""
        return nodes.wait_for_namespaces(self.instance.process_folder, node)

    @property
    def _limit_file(self) -> Path:
        return self.instance.run_folder / "megabits_per_s"

    def _start_process(self, name: str, command: list[str]) -> None:
        processes.start(
            self.instance.process_folder, name, command, self.logs / f"{name}.out", {"SLURM_CONF": str(self._conf)}
        )

    @property
    def _conf(self) -> Path:
        return self.folder / "slurm.conf"

    def _write_files(self) -> None:
        run_folder, host_name = self.instance.run_folder, socket.gethostname().split(".")[0]
        for folder in (self.logs, self.local_storage, self.instance.process_folder, run_folder / "state"):
            folder.mkdir(parents=True, exist_ok=True)
        for node in self.node_names:
            (run_folder / "spool" / node).mkdir(parents=True)
            (run_folder / "sys" / node).mkdir(parents=True)
        key = run_folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._conf.write_text(slurm_conf.slurm_conf(self.shape, self.instance, host_name, self.logs))
        (self.folder / "mpi.conf").write_text(slurm_conf.mpi_conf(self.local_storage))
        (self.folder / "hosts").write_text(slurm_conf.hosts(self.shape, self.instance, host_name))
        nsswitch = slurm_conf.nsswitch_conf(Path("/etc/nsswitch.conf").read_text())
        (self.folder / "nsswitch.conf").write_text(nsswitch)
        stored = {"instance": self.instance.number, "shape": asdict(self.shape)}
        (self.folder / "cluster.json").write_text(json.dumps(stored))

    def _start_munge(self) -> None:
        place = self.instance.run_folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={place}.{ending}" for option, ending in files.items()]
        self._start_process("munged", ["munged", "--foreground", *options, f"--log-file={self.logs}/munged.log"])
        self.wait_until(place.with_suffix(".socket").exists, "munge listens")

    def _spawn_controller(self) -> None:
        self._start_process("slurmctld", ["slurmctld", "-D"])

    def _boot(self, names: list[str]) -> None:
        process_folder, run_folder = self.instance.process_folder, self.instance.run_folder
        pipes: dict[str, int] = {}
        for name in names:
            size = f"{self.shape.local_storage_mebibytes}m"
            address = self.instance.address(self._number(name))
            places_of_files = [str(self.folder), str(self.local_storage), size, str(run_folder / "sys" / name)]
            environment = {"SLURM_CONF": str(self._conf)}
            arguments = [address, *places_of_files]
            pipes[name] = nodes.start(process_folder, name, self.logs / f"{name}.out", arguments, environment)
        network.plug(self.instance.bridge, {self._link(name): self.first_process(name) for name in names})
        for pipe in pipes.values():
            nodes.tell_plugged(pipe)
        if self._limit_file.exists():
            self._apply_limit(names)

    def _apply_limit(self, names: list[str]) -> None:
        megabits_per_s = float(self._limit_file.read_text())
        for name in names:
            if processes.find(self.instance.process_folder, name):
                self.run(*network.limit_command(self._link(name), megabits_per_s))
                self.run_on(name, *network.limit_command("eth0", megabits_per_s))

    def _count_idle(self) -> int:
        try:
            return int(self.run("sinfo", "--noheader", "--states=idle", "--format=%D").strip() or 0)
        except RuntimeError:
            return 0

    def _controller_answers(self) -> bool:
        return " is UP" in self.run("scontrol", "ping")
