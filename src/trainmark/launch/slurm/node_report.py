"""What a compute node says of itself: run there by a small job, read by whoever submitted it."""

import argparse
import os
import resource
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

from trainmark.machine.local_storage import own_folder
from trainmark.machine.software import describe_software
from trainmark.machine.topology import read_topology
from trainmark.spec.errors import StorageError
from trainmark.spec.files import write_json

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
