"""The machine that all tests plan for: two cores, one thread each, no accelerator."""

import os
import signal

from trainmark.machine.topology import read_topology

CORES = read_topology().cores[:2]


def on_two_cores() -> None:
    """preexec_fn: pins the child to two cores, and restores SIGINT, which background jobs ignore."""
    os.sched_setaffinity(0, CORES)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
