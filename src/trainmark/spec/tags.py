"""RunTags: the tags and the note that a user gives to a run, and how they are changed."""

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from trainmark.spec.config import Section
from trainmark.spec.errors import ConfigError

TAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}", re.ASCII)
MAX_NOTE = 4000  # characters


class RunTags(Section):
    """The content of tags.json."""

    schema_: Literal["trainmark.tags/1"] = Field("trainmark.tags/1", alias="schema")
    tags: tuple[str, ...] = ()
    note: str | None = None


def changed_tags(before: RunTags, changes: Iterable[str], note: str | None = None) -> RunTags:
    """Returns the tags after changes such as `+baseline`, `night` (the same as +) and `-old`.

    A note replaces the one before; an empty one removes it, None keeps it.
    """
    tags = dict.fromkeys(before.tags)
    for change in changes:
        name = change[1:] if change.startswith(("+", "-")) else change
        if not TAG.fullmatch(name):
            raise ConfigError(
                f"'{change}' is not a tag. Tags begin with a letter and have letters, digits, dots, hyphens and "
                "underscores, 64 at most; write +NAME to add one and -NAME to remove it."
            )
        if not change.startswith("-"):
            tags[name] = None
        elif name in tags:
            del tags[name]
        else:
            had = f"It has: {', '.join(tags)}." if tags else "It has none."
            raise ConfigError(f"The run has no tag '{name}' to remove. {had}")
    if note is not None and len(note) > MAX_NOTE:
        raise ConfigError(f"The note has {len(note):,} characters. Choose one of at most {MAX_NOTE:,}.")
    return RunTags(tags=tuple(sorted(tags)), note=before.note if note is None else note.strip() or None)
