"""Every test plans on the same machine: two cores, one thread each, no accelerator."""

import os
import signal

from trainmark.machine.topology import read_topology

CORES = read_topology().cores[:2]


def on_two_cores() -> None:
    """Runs in a child before its program: two physical cores, and Ctrl-C heeded (background jobs do not)."""
    os.sched_setaffinity(0, CORES)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
