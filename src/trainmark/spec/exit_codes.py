"""How a rank process says by its exit code why it ended."""

import signal

FAILED = 1
DISK_FULL = 28  # the number of ENOSPC
STOPPED = 128 + signal.SIGTERM


def explain_exit(code: int) -> str:
    """What an exit code of a rank means, in words; negative codes are signals, as Python's subprocess has them."""
    if code == DISK_FULL:
        return "no space left where the run is stored; free some space or choose another --runs-dir"
    if code == STOPPED:
        return "stopped by SIGTERM"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "real-time signal"
        why = "; probably out of memory, or killed by a user" if name == "SIGKILL" else ""
        return f"killed by signal {-code} ({name}){why}"
    return f"ended with exit code {code}"
