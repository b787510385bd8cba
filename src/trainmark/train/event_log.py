"""EventLog: a rank's measurements as JSON lines, each with wall and monotonic clock, each whole on disk."""

import json
import time
from pathlib import Path

from trainmark.spec.errors import TrainmarkError
from trainmark.spec.events import Event


class EventLog:
    """Appends events to one file; a line is one unbuffered write, so a kill never tears an earlier line."""

    def __init__(self, path: Path) -> None:
        self._is_torn = False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise TrainmarkError(
                f"{path} exists: this attempt has already run, and attempts are never mixed. Choose another --attempt."
            ) from None

    def write(self, event: Event) -> None:
        """Adds one event, with the clocks as they are now."""
        fields = {"kind": event.kind, "wall_s": time.time(), "monotonic_s": time.monotonic(), **event.facts()}
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode(errors="replace") + b"\n"  # names of files need not be Unicode; a line of JSON must be
        if self._is_torn:  # what follows a torn line must not be lost with it
            line = b"\n" + line
        self._is_torn = True
        while line:  # a nearly full disk takes a part of a line, and then refuses
            line = line[self._file.write(line) or 0 :]
        self._is_torn = False
