"""Which process works on something, and whether it still lives."""

import os
import socket
from typing import Any

import psutil


def this_process() -> dict[str, Any]:
    """Enough to recognise this process later, even if its number is used again."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "created_s": psutil.Process().create_time()}


def is_alive(record: dict[str, Any]) -> bool:
    """Whether the recorded process of this host still runs."""
    try:
        process = psutil.Process(record["pid"])
        return bool(abs(process.create_time() - record["created_s"]) < 1 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
