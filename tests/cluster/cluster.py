"""A Slurm cluster on this machine: starting, stopping, and injecting faults."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from tests.cluster import daemons, network, processes
from tests.cluster import instance as places
from tests.cluster.files import find_cluster, write_files
from tests.cluster.instance import Instance
from tests.cluster.nodes import Node, boot
from tests.cluster.shape import make_shape
from tests.waiting import TIMEOUT_S


class Cluster:
    """A cluster whose files are in a folder shared by all nodes."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 4,
        cores: int | None = None,
        *,
        local_storage_mebibytes: int = 1024,
        max_array_size: int = 1001,
        gpus: int = 0,
        slurm_settings: Mapping[str, str] | None = None,
    ) -> None:
        """A cluster that is not started yet; by default nodes have as many cores as this process may use."""
        self.folder = folder.resolve()
        self.shape = make_shape(nodes, cores, local_storage_mebibytes, max_array_size, gpus, slurm_settings or {})
        self._instance: Instance | None = None
        self._lock: int | None = None

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """Returns the running cluster of a folder, whichever process started it."""
        cluster = cls(folder)
        cluster._instance, cluster.shape = find_cluster(cluster.folder)
        return cluster

    # Properties

    @property
    def instance(self) -> Instance:
        """The instance of a started cluster."""
        if self._instance is None:
            raise RuntimeError(f"The cluster of {self.folder} is not running. Call start() first.")
        return self._instance

    @property
    def node_names(self) -> list[str]:
        """n1, n2, …"""
        return self.shape.node_names

    @property
    def local_storage(self) -> Path:
        """The node-local storage, of limited size."""
        return self.folder / "local"

    @property
    def logs(self) -> Path:
        """The folder of the daemons' logs."""
        return self.folder / "logs"

    def environment(self) -> dict[str, str]:
        """Environment variables for Slurm and Open MPI on this cluster."""
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def node(self, name: str) -> Node:
        """The node of that name."""
        if name not in self.node_names:
            raise ValueError(f"There is no node {name}; there are {', '.join(self.node_names)}.")
        number = self.node_names.index(name) + 1
        return Node(number, name, self.instance, self.folder, self.shape.local_storage_mebibytes)

    # Life cycle

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the cluster; returns when all nodes are idle."""
        self._instance, self._lock = places.claim()
        try:
            write_files(self.folder, self.shape, self.instance)
            network.create(self.instance.bridge, self.instance.controller_address)
            socket = daemons.start_munge(self.instance, self.logs)
            self.wait_until(socket.exists, "munge listens")
            daemons.start_controller(self.instance, self.logs, self.folder / "slurm.conf")
            boot([self.node(name) for name in self.node_names], self.instance.bridge)
            self.wait_until(lambda: self._count_idle() == self.shape.num_nodes, "all nodes are idle")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the cluster; the folder with the logs stays."""
        if self._instance is not None:
            places.clean(self._instance)
            places.release(self._instance)
            self._instance = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def leave_running(self) -> None:
        """Lets the cluster outlive this process, until another one stops it."""
        if self._lock is not None:
            places.keep(self.instance, self._lock, self.logs / "keeper.out")
            self._lock = None

    # Commands

    def run(self, *command: str) -> str:
        """Runs a command here with the cluster's variables; returns its output, raises if it fails."""
        environment = {**os.environ, **self.environment()}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode:
            raise RuntimeError(f"{list(command)} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def run_on(self, node: str, *command: str) -> str:
        """Runs a command on a node, bypassing Slurm; returns its output, raises if it fails."""
        return self.run(*self.node(node).inside(command))

    def cancel_all_jobs(self) -> None:
        """Cancels all jobs; returns when none is left."""
        self.run("scancel", "--user=root")
        self.wait_until(lambda: not self.run("squeue", "--noheader"), "no job is left")

    # Faults

    def node_state(self, node: str) -> str:
        """Returns Slurm's state of a node: idle, allocated, mixed, down, …, with a * if it does not respond."""
        # Slurm updates used cores at most once a second: a node that went down may still be "mixed".
        return self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()

    def set_down(self, node: str) -> None:
        """An administrator takes a node out of service: its jobs end at once."""
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def set_up(self, node: str) -> None:
        """An administrator takes a node back into service."""
        # Refused for a node in service, which node_state() does not always show.
        with contextlib.suppress(RuntimeError):
            self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait_for_node(node)

    def power_off(self, node: str) -> None:
        """Powers a node off at once, without notice."""
        self.node(node).power_off()

    def power_on(self, node: str) -> None:
        """Starts a node again, with empty local storage; returns when Slurm can use it."""
        boot([self.node(node)], self.instance.bridge)
        if self._limit_file.exists():
            self.node(node).limit(float(self._limit_file.read_text()))
        self.wait_for_node(node)

    def cut_network(self, node: str) -> None:
        """Drops all packets from and to a node; the shared folder stays available."""
        network.set_carrier(self.node(node).link, up=False)

    def mend_network(self, node: str) -> None:
        """Restores the network of a node."""
        network.set_carrier(self.node(node).link, up=True)

    def limit_bandwidth(self, megabits_per_s: float) -> None:
        """Limits the bandwidth of every node, until the limits are lifted."""
        self._limit_file.write_text(str(megabits_per_s))
        for node in self._running_nodes():
            node.limit(megabits_per_s)

    def lift_limits(self) -> None:
        """Removes all limits of bandwidth and CPU time."""
        self._limit_file.unlink(missing_ok=True)
        for node in self._running_nodes():
            node.lift_limits()

    def limit_cpu(self, cores: float) -> None:
        """Limits the CPU time of every node, until it is powered off or the limits are lifted."""
        for node in self._running_nodes():
            node.limit_cpu(cores)

    def set_time_left(self, job_id: int | str, seconds: float) -> None:
        """Sets the remaining time of a running job; Slurm enforces limits only every 30 s."""
        end = datetime.now() + timedelta(seconds=seconds)
        self.run("scontrol", "update", f"jobid={job_id}", f"endtime={end:%Y-%m-%dT%H:%M:%S}")

    def stop_controller(self) -> None:
        """Stops slurmctld, which saves its state; jobs continue."""
        processes.end(self.instance.process_folder, "slurmctld", signal.SIGTERM)

    def start_controller(self) -> None:
        """Starts slurmctld with its saved state; returns when it responds."""
        daemons.start_controller(self.instance, self.logs, self.folder / "slurm.conf")
        self.wait_until(self._controller_answers, "the controller answers")

    def restart_controller(self) -> None:
        """Restarts slurmctld."""
        self.stop_controller()
        self.start_controller()

    @property
    def _limit_file(self) -> Path:
        return self.instance.run_folder / "megabits_per_s"

    def _running_nodes(self) -> list[Node]:
        return [node for node in map(self.node, self.node_names) if node.is_on]

    # Waiting

    def wait_until(self, holds: Callable[[], bool], what: str) -> float:
        """Waits until a condition holds; returns the seconds, raises after the timeout."""
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > TIMEOUT_S:
                raise TimeoutError(f"Timed out after {TIMEOUT_S:g} s waiting until {what}. Logs: {self.logs}.")
            time.sleep(0.05)
        return time.monotonic() - begun

    def wait_for_node(self, node: str) -> float:
        """Waits until Slurm can use a node; returns the seconds."""

        def is_usable() -> bool:
            state = self.node_state(node)
            return not state.startswith(("down", "unknown")) and not state.endswith("*")

        return self.wait_until(is_usable, f"node {node} answers")

    def _controller_answers(self) -> bool:
        with contextlib.suppress(RuntimeError):
            return " is UP" in self.run("scontrol", "ping")
        return False

    def _count_idle(self) -> int:
        with contextlib.suppress(RuntimeError):
            return int(self.run("sinfo", "--noheader", "--states=idle", "--format=%D").strip() or 0)
        return 0
