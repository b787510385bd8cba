"""Which process works on something, and whether it still lives."""

import os
import socket
from pathlib import Path
from typing import Any

import psutil

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> dict[str, Any]:
    """Enough to recognise this process later, even if its number is used again and the clock is set meanwhile."""
    pid = os.getpid()
    started = {"host": socket.gethostname(), "pid": pid, "created_s": psutil.Process().create_time()}
    return {**started, **_since_boot(pid)}


def is_alive(record: dict[str, Any]) -> bool:
    """Whether the recorded process of this host still runs."""
    try:
        process = psutil.Process(record["pid"])
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        now = _since_boot(record["pid"])
        if now and "start_ticks" in record:  # moves with no clock; records of earlier versions lack it
            return all(record[name] == value for name, value in now.items())
        return bool(abs(process.create_time() - record["created_s"]) < 1)
    except psutil.NoSuchProcess:
        return False


def _since_boot(pid: int) -> dict[str, Any]:
    """When the process started, in clock ticks since this boot; nothing where the kernel does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return {"start_ticks": int(fields[19]), "boot_id": BOOT_ID.read_text().strip()}  # field 22 of proc_pid_stat(5)
    except (OSError, ValueError, IndexError):
        return {}
