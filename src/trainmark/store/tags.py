"""Reads and changes the tags of a run, which are a small file in its folder."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from pydantic import ValidationError

from trainmark.spec.errors import RunNotFoundError, StorageError
from trainmark.spec.files import one_line, write_text
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.tags import RunTags, changed_tags

NO_TAGS = RunTags()


def read_tags(folder: RunFolder) -> tuple[RunTags, str | None]:
    """Returns the tags of a run, and why they cannot be read, if so; a run without the file has none."""
    try:
        return RunTags.model_validate_json(folder.tags.read_bytes()), None
    except (FileNotFoundError, NotADirectoryError):
        return NO_TAGS, None
    except ValidationError:
        return NO_TAGS, f"{folder.tags.name} does not hold tags as this version of trainmark knows them"
    except OSError as error:
        return NO_TAGS, f"{folder.tags.name} cannot be read: {one_line(error)}"


def change_tags(folder: RunFolder, changes: Iterable[str], note: str | None = None) -> RunTags:
    """Changes tags and note atomically and returns them; raises if the file is damaged or cannot be written."""
    with _locked(folder):
        before, problem = read_tags(folder)
        if problem:
            raise RunNotFoundError(f"{folder.path}: {problem}. Move it away to tag the run anew.")
        after = changed_tags(before, changes, note)
        if after == before:
            return after
        try:
            write_text(folder.tags, after.model_dump_json(by_alias=True, indent=2) + "\n")
        except OSError as error:
            raise StorageError(
                f"Run {folder.run_id} cannot be tagged: {one_line(error)}. Make {folder.path} writable, or tag a copy "
                "of the run."
            ) from error
        return after


@contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    """Lets one process at a time change the tags, where the file system can lock folders."""
    descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # NFS locks no folder: the last one to write wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
