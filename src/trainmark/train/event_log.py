"""EventLog: a rank's measurements as JSON lines, each with wall-clock and monotonic time."""

import json
import time
from pathlib import Path

from trainmark.spec.errors import TrainmarkError
from trainmark.spec.events import Event


class EventLog:
    """Appends events to one file; a line is one unbuffered write, so earlier lines survive a kill."""

    def __init__(self, path: Path) -> None:
        self._is_torn = False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise TrainmarkError(f"{path} exists: this attempt has already run. Choose another --attempt.") from None

    def write(self, event: Event) -> None:
        """Appends one event, stamped with the current time."""
        fields = {"kind": event.kind, "wall_s": time.time(), "monotonic_s": time.monotonic(), **event.facts()}
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode(errors="replace") + b"\n"  # file names need not be Unicode, JSON must be
        if self._is_torn:  # a torn line must not corrupt the next one
            line = b"\n" + line
        self._is_torn = True
        while line:  # a nearly full disk may accept only part of a line
            line = line[self._file.write(line) or 0 :]
        self._is_torn = False
