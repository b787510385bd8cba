"""Run folders with a stored Result of an earlier version, written in milliseconds; and processes that are killed."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.store.listing import Lister

STORED = Path(__file__).with_name("stored_results") / "of-0.1.0.json"
LONG_AGO_S = 1_000_000_000
KILLED = 99


def write_run(runs_dir: Path, number: int, flops: float | None = 1e9, **changes: Any) -> RunFolder:
    """Writes a run with a Result whose files are old; `changes` replace parts of it."""
    record: dict[str, Any] = json.loads(STORED.read_text())
    folder = RunFolder(runs_dir / f"20261115-{number:06d}-image-classification-{number:04x}")
    for member in record["members"]:
        folder.attempt(member["member"], member["attempts"]).path.mkdir(parents=True)
    folder.claims.mkdir()
    folder.plan.write_text("{}")
    folder.origin.write_text("{}")
    metric = record["metrics"]["flops"]
    metric |= {"value": flops} if flops is not None else {"value": None, "status": "unavailable", "reason": "no steps"}
    folder.result.write_text(json.dumps(record | {"run_id": folder.run_id} | changes))
    settle(folder)
    return folder


def settle(folder: RunFolder, at_s: int = LONG_AGO_S) -> None:
    """Makes the files of a run as old as they are after a while."""
    for path in (folder.result, folder.tags, folder.claims):
        if path.exists():
            os.utime(path, (at_s, at_s))


def never_built(folder: RunFolder) -> Result:
    raise AssertionError(f"{folder.path} has a stored Result")


def lister(cache_dir: Path) -> Lister:
    return Lister(cache_dir, never_built)


def killed_at(
    call: int, owners: list[tuple[Any, str]], work: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Runs the work in another process that ends, as by kill −9, before the k-th call of these functions.

    Returns whether it was killed; False: it made fewer calls and ended by itself.
    """
    child = os.fork()
    if child == 0:
        code, made = 1, 0

        def counting(function: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **named: Any) -> Any:
                nonlocal made
                made += 1
                if made == call:
                    os._exit(KILLED)
                return function(*arguments, **named)

            return counted

        try:
            for owner, name in owners:
                monkeypatch.setattr(owner, name, counting(getattr(owner, name)))
            work()
            code = 0
        except BaseException as error:  # noqa: BLE001  said by the exit code
            sys.__stderr__.write(f"{type(error).__name__}: {error}\n") if sys.__stderr__ else None
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED
