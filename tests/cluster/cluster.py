"""A Slurm cluster on this machine: start and stop it, and make it fail."""

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
from tests.waiting import PATIENCE_S


class Cluster:
    """A cluster whose files lie in a folder that all nodes see, as they would a shared file system."""

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
        """A cluster yet to be started; a node has as many cores as this process may use, if not told otherwise."""
        self.folder = folder.resolve()
        self.shape = make_shape(nodes, cores, local_storage_mebibytes, max_array_size, gpus, slurm_settings or {})
        self._instance: Instance | None = None
        self._lock: int | None = None

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """The running cluster of a folder, whichever process started it."""
        cluster = cls(folder)
        cluster._instance, cluster.shape = find_cluster(cluster.folder)
        return cluster

    # What it is

    @property
    def instance(self) -> Instance:
        """The place of a cluster that was started."""
        if self._instance is None:
            raise RuntimeError(f"The cluster of {self.folder} is not running. Call start() first.")
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
        """The folder of what the daemons write."""
        return self.folder / "logs"

    def environment(self) -> dict[str, str]:
        """The variables that Slurm's and Open MPI's commands need for this cluster."""
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

    # Life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when all nodes are idle."""
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
        """Ends everything of the cluster; the folder stays, with the logs."""
        if self._instance is not None:
            places.clean(self._instance)
            places.release(self._instance)
            self._instance = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def leave_running(self) -> None:
        """Lets the cluster outlive this process, until another one attaches to it and stops it."""
        if self._lock is not None:
            places.keep(self.instance, self._lock, self.logs / "keeper.out")
            self._lock = None

    # Commands

    def run(self, *command: str) -> str:
        """The output of a command that is run here, with the cluster's variables; raises when it fails."""
        environment = {**os.environ, **self.environment()}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode:
            raise RuntimeError(f"{list(command)} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def run_on(self, node: str, *command: str) -> str:
        """The output of a command that is run on a node, past Slurm; raises when it fails."""
        return self.run(*self.node(node).inside(command))

    def cancel_all_jobs(self) -> None:
        """Returns when no job is left."""
        self.run("scancel", "--user=root")
        self.wait_until(lambda: not self.run("squeue", "--noheader"), "no job is left")

    # Faults

    def node_state(self, node: str) -> str:
        """What Slurm says of a node: idle, allocated, mixed, down, …, with a * when it does not answer."""
        # Slurm counts used cores once a second at most: just after its jobs ended, a node that is down may be "mixed".
        return self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()

    def set_down(self, node: str) -> None:
        """An administrator takes a node out of service: its jobs end at once."""
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def set_up(self, node: str) -> None:
        """An administrator takes a node back into service."""
        # Refused for a node in service; node_state() cannot always tell.
        with contextlib.suppress(RuntimeError):
            self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait_for_node(node)

    def power_off(self, node: str) -> None:
        """Ends everything of a node at once, without a word to anybody."""
        self.node(node).power_off()

    def power_on(self, node: str) -> None:
        """Starts a node again, with empty local storage, and returns when Slurm may use it."""
        boot([self.node(node)], self.instance.bridge)
        if self._limit_file.exists():
            self.node(node).limit(float(self._limit_file.read_text()))
        self.wait_for_node(node)

    def cut_network(self, node: str) -> None:
        """Packets from and to a node are lost; the shared folder is still there."""
        network.set_carrier(self.node(node).link, up=False)

    def mend_network(self, node: str) -> None:
        """Packets from and to a node arrive again."""
        network.set_carrier(self.node(node).link, up=True)

    def limit_bandwidth(self, megabits_per_s: float) -> None:
        """Every node sends and receives at no more than a rate, until the limits are lifted."""
        self._limit_file.write_text(str(megabits_per_s))
        for node in self._nodes_that_are_on():
            node.limit(megabits_per_s)

    def lift_limits(self) -> None:
        """Every node sends and receives as fast as the machine can."""
        self._limit_file.unlink(missing_ok=True)
        for node in self._nodes_that_are_on():
            node.lift_limit()

    def set_time_left(self, job_id: int | str, seconds: float) -> None:
        """A running job's time limit is in so many seconds; Slurm acts on limits every 30 s only."""
        end = datetime.now() + timedelta(seconds=seconds)
        self.run("scontrol", "update", f"jobid={job_id}", f"endtime={end:%Y-%m-%dT%H:%M:%S}")

    def stop_controller(self) -> None:
        """Ends Slurm's controller, which saves its state; jobs go on."""
        processes.end(self.instance.process_folder, "slurmctld", signal.SIGTERM)

    def start_controller(self) -> None:
        """Starts Slurm's controller with its saved state and returns when it answers."""
        daemons.start_controller(self.instance, self.logs, self.folder / "slurm.conf")
        self.wait_until(self._controller_answers, "the controller answers")

    def restart_controller(self) -> None:
        """Stops and starts Slurm's controller."""
        self.stop_controller()
        self.start_controller()

    @property
    def _limit_file(self) -> Path:
        return self.instance.run_folder / "megabits_per_s"

    def _nodes_that_are_on(self) -> list[Node]:
        return [node for node in map(self.node, self.node_names) if node.is_on]

    # Waiting

    def wait_until(self, holds: Callable[[], bool], what: str) -> float:
        """The seconds until something holds; raises when that takes too long."""
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > PATIENCE_S:
                raise TimeoutError(f"Waited {PATIENCE_S:g} s, but not: {what}. See the logs in {self.logs}.")
            time.sleep(0.05)
        return time.monotonic() - begun

    def wait_for_node(self, node: str) -> float:
        """The seconds until Slurm may use a node."""

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
