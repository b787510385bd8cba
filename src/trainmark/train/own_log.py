"""A rank's own log, where the program that started it does not part the output of its ranks."""

import os
import sys
from pathlib import Path


def print_into(path: Path) -> None:
    """From now on all that this process prints, libraries in C included, stands in the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
