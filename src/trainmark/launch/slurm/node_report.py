"""A compute node's report in preflight, and the findings from it, each with a fix where needed."""

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
from trainmark.machine.storage import user_staging_folder
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
    """Returns this node's software, cores, limits, clock and storage, and whether it sees the submitter's file."""
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
    """Reports node-local storage as a run would use it."""
    try:
        folder = user_staging_folder(local_storage, instead="Correct it in the site file")
        return {"folder": str(folder), "free_bytes": shutil.disk_usage(folder).free, "error": None}
    except (StorageError, OSError) as error:
        return {"folder": local_storage, "free_bytes": 0, "error": str(error)}


def main(argv: list[str] | None = None) -> None:
    """Writes the report of this node."""
    parser = argparse.ArgumentParser(prog="python -m trainmark.launch.slurm.node_report", description=__doc__)
    parser.add_argument("token", type=Path, help="a file that the submitter wrote")
    parser.add_argument("report", type=Path, help="the file to write")
    parser.add_argument("--local-storage", help="folder on node-local storage")
    arguments = parser.parse_args(argv)
    write_json(arguments.report, report(arguments.token, arguments.local_storage))


if __name__ == "__main__":
    main()


SAME_SOFTWARE = ("trainmark", "torch", "python")
MAX_SKEW_S = 1.0  # spans of members on different nodes are compared by the wall clock
MIN_OPEN_FILES = 4096
MIN_FREE_BYTES = 2**30


def judge_node(
    label: str, group: NodeGroup, node: dict[str, Any], here: dict[str, Any], token: str, python: str | None = None
) -> Iterator[Finding]:
    """Yields the findings on a node's report; `here` describes the submitting machine, `python` the workers' own."""
    place = f"{label}, node {node['host']}"
    yield _shared(place, node, token)
    yield from _software(place, node, here) if python is None else _other_software(place, node, python)
    yield _clock(place, node, here)
    yield _cores(place, group, node)
    yield _slots(place, group, node)
    yield _open_files(place, node)
    yield _space(f"{label}: free space for runs", here["free_bytes"])
    if node["local_storage"] is not None:
        yield _local_storage(place, node["local_storage"])


def judge_setup(label: str, failure: str | None) -> Finding:
    """Returns the finding on the site's setup lines; a failing line may be harmless, so it is a warning."""
    if failure is None:
        return Finding(f"{label}: setup", "good", "no line failed")
    return Finding(f"{label}: setup", "warning", failure, "Correct setup in the site file.")


def judge_missing_report(label: str, job_id: str, state: QueueState | None, lines: list[str]) -> Finding:
    """Returns the finding on a job without a report; `lines` is its output."""
    # srun's message on a failed task may come before the reason.
    first = next((line for line in lines if "Exited with exit code" not in line), "it printed nothing")
    if state is not None and state.is_waiting:
        why = f"job {job_id} was still pending ({state.reason or state.state})"
        return Finding(f"{label}: answer", "warning", why, "Try again later, or increase --patience.")
    end = state.state if state is not None else "unknown to Slurm"
    return Finding(
        f"{label}: answer",
        "problem",
        f"job {job_id} ended ({end}) without a report: {first}",
        "Correct setup, container, python or the runs folder, which must be on shared storage.",
    )


def _shared(place: str, node: dict[str, Any], token: str) -> Finding:
    if node["saw_token"] == token:
        return Finding(f"{place}: runs folder", "good", "shared, and writable from the node")
    return Finding(
        f"{place}: runs folder",
        "problem",
        "a file written here is not visible there",
        "Choose a --runs-dir on shared storage.",
    )


def _software(place: str, node: dict[str, Any], here: dict[str, Any]) -> Iterator[Finding]:
    for name in SAME_SOFTWARE:
        there, local = node["software"][name], here["software"][name]
        if there == local:
            yield Finding(f"{place}: {name}", "good", str(there))
        else:
            fix = "Correct setup, container or python in the site file, so that both use the same environment."
            yield Finding(f"{place}: {name}", "problem", f"{there} there, {local} here", fix)


def _other_software(place: str, node: dict[str, Any], python: str) -> Iterator[Finding]:
    """Yields what launch.python has on a node, which may differ from what is installed here."""
    for name in SAME_SOFTWARE:
        what, there = f"{place}: {name} of {python}", str(node["software"][name])
        if not there.startswith("unavailable"):
            yield Finding(what, "good", there)
        else:
            yield Finding(what, "problem", there, f"Install it: {python} -m pip install {name}")


def _clock(place: str, node: dict[str, Any], here: dict[str, Any]) -> Finding:
    skew_s = abs(node["wall_s"] - here["wall_s"])
    if skew_s <= MAX_SKEW_S:
        return Finding(f"{place}: clock", "good", f"within {MAX_SKEW_S:.0f} s of the storage's clock")
    fix = "Synchronise the clocks (chrony); until then times of members on different nodes cannot be compared."
    return Finding(f"{place}: clock", "warning", f"{show_duration(skew_s)} off the storage's clock", fix)


def _cores(place: str, group: NodeGroup, node: dict[str, Any]) -> Finding:
    wanted = len(group.slots[0].cores)
    if node["cores"] == wanted:
        return Finding(f"{place}: cores per task", "good", f"{wanted}, as its slot has")
    return Finding(
        f"{place}: cores per task",
        "warning" if node["cores"] > wanted else "problem",
        f"{node['cores']}, but its slot has {wanted}",
        'If Slurm does not bind tasks to cores, set slurm.binding = "plan"; else correct the slots.',
    )


def _slots(place: str, group: NodeGroup, node: dict[str, Any]) -> Finding:
    what, wanted, there = f"{place}: slots", sum(len(slot.cores) for slot in group.slots), node["cores_of_node"]
    if wanted <= there or group.shared_cores:
        return Finding(what, "good", f"{len(group.slots)}, on {wanted} of {there} cores")
    fix = "Correct the slots in the site file; `trainmark machine --draft-site` drafts them."
    return Finding(what, "problem", f"{len(group.slots)} with {wanted} cores in total, but the node has {there}", fix)


def judge_count(label: str, group: NodeGroup, nodes: set[str]) -> Finding:
    """Returns the finding on the number of nodes that Slurm has for a group."""
    if group.count <= len(nodes):
        return Finding(f"{label}: nodes", "good", f"{group.count} of {len(nodes)}")
    fix = "Correct count or names in the site file; jobs that request more nodes would stay pending forever."
    return Finding(f"{label}: nodes", "problem", f"{group.count} in the site file, but Slurm has {len(nodes)}", fix)


def _open_files(place: str, node: dict[str, Any]) -> Finding:
    files = node["limits"]["open files"]
    if files < 0 or files >= MIN_OPEN_FILES:
        return Finding(f"{place}: open files limit", "good", "unlimited" if files < 0 else str(files))
    fix = f"Add 'ulimit -n {MIN_OPEN_FILES}' to setup."
    return Finding(f"{place}: open files limit", "warning", str(files), fix)


def _space(what: str, free_bytes: int) -> Finding:
    if free_bytes >= MIN_FREE_BYTES:
        return Finding(what, "good", show_bytes(free_bytes))
    return Finding(what, "warning", show_bytes(free_bytes), "Free some, or choose another --runs-dir.")


def _local_storage(place: str, storage: dict[str, Any]) -> Finding:
    what = f"{place}: local storage {storage['folder']}"
    if storage["error"]:
        return Finding(what, "problem", storage["error"], "Correct groups.local_storage in the site file.")
    return _space(what, storage["free_bytes"])
