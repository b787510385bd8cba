"""The test cluster by hand: `python -m tests.cluster up FOLDER`, then the faults, then `down FOLDER`."""

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.requirements import find_missing

ON_A_NODE: dict[str, Callable[[Cluster, str], None]] = {
    "set-down": Cluster.set_down,
    "set-up": Cluster.set_up,
    "power-off": Cluster.power_off,
    "power-on": Cluster.power_on,
    "cut-network": Cluster.cut_network,
    "mend-network": Cluster.mend_network,
}
ON_ALL: dict[str, Callable[[Cluster], None]] = {
    "down": Cluster.stop,
    "lift-limits": Cluster.lift_limits,
    "stop-controller": Cluster.stop_controller,
    "start-controller": Cluster.start_controller,
    "restart-controller": Cluster.restart_controller,
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=about)
        command.add_argument("folder", type=Path, help="the cluster's folder, shared by all nodes")
        return command

    up = add("up", "start a cluster and leave it running; prints the variables to export")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--cores", type=int, help="cores of a node (default: what this process may use)")
    up.add_argument("--local-storage-mebibytes", type=int, default=1024)
    up.add_argument("--max-array-size", type=int, default=1001)
    shell = add("shell", "a shell on a node")
    shell.add_argument("node")
    limit = add("limit-bandwidth", "limit what each node sends and receives")
    limit.add_argument("megabits_per_s", type=float)
    limit_cpu = add("limit-cpu", "limit the CPU time of each node, so that they do not compete")
    limit_cpu.add_argument("cores", type=float, help="may be a fraction: 0.4")
    for name, does in ON_A_NODE.items():
        add(name, str(does.__doc__)).add_argument("node")
    for name, does_all in ON_ALL.items():
        add(name, str(does_all.__doc__))
    return parser.parse_args(arguments)


def up(chosen: argparse.Namespace) -> None:
    """Starts a cluster that outlives this process, and prints its environment variables."""
    if missing := find_missing():
        sys.exit(f"Cannot start: {missing}.")
    with contextlib.suppress(FileNotFoundError):
        Cluster.attach(chosen.folder)
        sys.exit(f"A cluster already runs in {chosen.folder}. Stop it: python -m tests.cluster down {chosen.folder}.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(
        chosen.folder,
        chosen.nodes,
        chosen.cores,
        local_storage_mebibytes=chosen.local_storage_mebibytes,
        max_array_size=chosen.max_array_size,
    )
    cluster.start()
    cluster.leave_running()
    for name, value in cluster.environment().items():
        print(f"export {name}={shlex.quote(value)}")


def main(arguments: list[str]) -> None:
    """Runs a command on the cluster."""
    chosen = parse(arguments)
    if chosen.command == "up":
        up(chosen)
        return
    cluster = Cluster.attach(chosen.folder)
    if chosen.command == "shell":
        os.environ.update(cluster.environment())
        command = cluster.node(chosen.node).inside([os.environ.get("SHELL", "/bin/sh")])
        os.execvp(command[0], command)
    elif chosen.command == "limit-bandwidth":
        cluster.limit_bandwidth(chosen.megabits_per_s)
    elif chosen.command == "limit-cpu":
        cluster.limit_cpu(chosen.cores)
    elif chosen.command in ON_A_NODE:
        ON_A_NODE[chosen.command](cluster, chosen.node)
    else:
        ON_ALL[chosen.command](cluster)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (FileNotFoundError, ValueError, RuntimeError) as error:
        sys.exit(str(error))
