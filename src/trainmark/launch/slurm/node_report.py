"""What a compute node says of itself, and what that means: each finding with its fix where it is not good."""

import argparse
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainmark.machine.software import describe_software
from trainmark.machine.storage import own_folder
from trainmark.machine.topology import read_topology
from trainmark.spec.errors import StorageError
from trainmark.spec.files import write_json
from trainmark.spec.site import NodeGroup
from trainmark.spec.status import Finding, QueueState
from trainmark.spec.units import show_bytes, show_duration

LIMITS = {
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "locked memory": resource.RLIMIT_MEMLOCK,
}


def report(token: Path, local_storage: str | None) -> dict[str, Any]:
    """Software, cores, limits and clock of this node, whether it sees the submitter's file, and its local storage."""
    return {
        "host": socket.gethostname(),
        "python": sys.version.split()[0],
        "software": describe_software(),
        "saw_token": token.read_text() if token.exists() else None,
        "wall_s": time.time(),
        "cores": len(read_topology().cores),
        "limits": {name: resource.getrlimit(number)[0] for name, number in LIMITS.items()},
        "cores_of_node": os.cpu_count(),
        "local_storage": None if local_storage is None else _storage(local_storage),
    }


def _storage(local_storage: str) -> dict[str, Any]:
    """As a run would find it."""
    try:
        folder = own_folder(local_storage, instead="Correct it in the site file")
        return {"folder": str(folder), "free_bytes": shutil.disk_usage(folder).free, "error": None}
    except (StorageError, OSError) as error:
        return {"folder": local_storage, "free_bytes": 0, "error": str(error)}


def main(argv: list[str] | None = None) -> None:
    """Writes the report of this node."""
    parser = argparse.ArgumentParser(prog="python -m trainmark.launch.slurm.node_report", description=__doc__)
    parser.add_argument("token", type=Path, help="a file that the submitter wrote")
    parser.add_argument("report", type=Path, help="the file to write")
    parser.add_argument("--local-storage", help="folder of the node's own storage")
    arguments = parser.parse_args(argv)
    write_json(arguments.report, report(arguments.token, arguments.local_storage))


if __name__ == "__main__":
    main()


SAME_SOFTWARE = ("trainmark", "torch", "python")
MOST_SKEW_S = 1.0  # spans of members on different nodes are compared by the wall clock
FEWEST_OPEN_FILES = 4096
LEAST_FREE_BYTES = 2**30


def judge_node(
    label: str, group: NodeGroup, node: dict[str, Any], here: dict[str, Any], token: str
) -> Iterator[Finding]:
    """All findings about a node that has answered; `here` is the same of the machine that submitted."""
    place = f"{label}, node {node['host']}"
    yield _shared(place, node, token)
    yield from _software(place, node, here)
    yield _clock(place, node, here)
    yield _cores(place, group, node)
    yield _slots(place, group, node)
    yield _open_files(place, node)
    yield _space(f"{label}: free space for runs", here["free_bytes"])
    if node["local_storage"] is not None:
        yield _local_storage(place, node["local_storage"])


def judge_setup(label: str, failure: str | None) -> Finding:
    """The finding about the site's setup lines; one that fails may be harmless, so it is no problem by itself."""
    if failure is None:
        return Finding(f"{label}: setup", "good", "no line failed")
    return Finding(f"{label}: setup", "warning", failure, "Correct setup in the site file.")


def judge_silence(label: str, job_id: str, state: QueueState | None, lines: list[str]) -> Finding:
    """The finding about a job that has left no report; `lines` is what it printed."""
    # srun's own word on a task that failed may come before the one that says why.
    first = next((line for line in lines if "Exited with exit code" not in line), "it printed nothing")
    if state is not None and state.is_waiting:
        why = f"job {job_id} was still waiting ({state.reason or state.state})"
        return Finding(f"{label}: answer", "warning", why, "Wait for a quieter time, or give more --patience.")
    word = state.state if state is not None else "unknown to Slurm"
    return Finding(
        f"{label}: answer",
        "problem",
        f"job {job_id} ended ({word}) without a report: {first}",
        "Correct setup, container, python or the runs folder: it must be on storage that the nodes share.",
    )


def _shared(place: str, node: dict[str, Any], token: str) -> Finding:
    if node["saw_token"] == token:
        return Finding(f"{place}: runs folder", "good", "shared, and writable from the node")
    return Finding(
        f"{place}: runs folder", "problem", "a file of this machine was not seen there", "Choose a shared --runs-dir."
    )


def _software(place: str, node: dict[str, Any], here: dict[str, Any]) -> Iterator[Finding]:
    for name in SAME_SOFTWARE:
        there, own = node["software"][name], here["software"][name]
        if there == own:
            yield Finding(f"{place}: {name}", "good", str(there))
        else:
            fix = "Correct setup, container or python in the site file, so that both use one environment."
            yield Finding(f"{place}: {name}", "problem", f"{there} there, {own} here", fix)


def _clock(place: str, node: dict[str, Any], here: dict[str, Any]) -> Finding:
    skew_s = abs(node["wall_s"] - here["wall_s"])
    if skew_s <= MOST_SKEW_S:
        return Finding(f"{place}: clock", "good", f"within {MOST_SKEW_S:.0f} s of the storage's clock")
    fix = "Have the clocks set (chrony); until then times of members on different nodes cannot be compared."
    return Finding(f"{place}: clock", "warning", f"{show_duration(skew_s)} off the storage's clock", fix)


def _cores(place: str, group: NodeGroup, node: dict[str, Any]) -> Finding:
    wanted = len(group.slots[0].cores)
    if node["cores"] == wanted:
        return Finding(f"{place}: cores of a task", "good", f"{wanted}, as its slot has")
    return Finding(
        f"{place}: cores of a task",
        "warning" if node["cores"] > wanted else "problem",
        f"{node['cores']}, but its slot has {wanted}",
        'If Slurm does not bind tasks to cores, set slurm.binding = "plan"; else correct the slots.',
    )


def _slots(place: str, group: NodeGroup, node: dict[str, Any]) -> Finding:
    what, wanted, there = f"{place}: slots", sum(len(slot.cores) for slot in group.slots), node["cores_of_node"]
    if wanted <= there or group.shared_cores:
        return Finding(what, "good", f"{len(group.slots)}, on {wanted} of {there} cores")
    fix = "Correct the slots in the site file; `trainmark machine --draft-site` drafts them."
    return Finding(what, "problem", f"{len(group.slots)} with {wanted} cores together, but the node has {there}", fix)


def judge_count(label: str, group: NodeGroup, nodes: set[str]) -> Finding:
    """The finding about the number of nodes that Slurm has for a group."""
    if group.count <= len(nodes):
        return Finding(f"{label}: nodes", "good", f"{group.count} of {len(nodes)}")
    fix = "Correct count or names in the site file; jobs for more nodes than there are would wait for ever."
    return Finding(f"{label}: nodes", "problem", f"{group.count} in the site file, but Slurm has {len(nodes)}", fix)


def _open_files(place: str, node: dict[str, Any]) -> Finding:
    files = node["limits"]["open files"]
    if files < 0 or files >= FEWEST_OPEN_FILES:
        return Finding(f"{place}: limit of open files", "good", "unlimited" if files < 0 else str(files))
    fix = f"Put 'ulimit -n {FEWEST_OPEN_FILES}' into setup."
    return Finding(f"{place}: limit of open files", "warning", str(files), fix)


def _space(what: str, free_bytes: int) -> Finding:
    if free_bytes >= LEAST_FREE_BYTES:
        return Finding(what, "good", show_bytes(free_bytes))
    return Finding(what, "warning", show_bytes(free_bytes), "Free some, or choose another --runs-dir.")


def _local_storage(place: str, storage: dict[str, Any]) -> Finding:
    what = f"{place}: local storage {storage['folder']}"
    if storage["error"]:
        return Finding(what, "problem", storage["error"], "Correct groups.local_storage in the site file.")
    return _space(what, storage["free_bytes"])
