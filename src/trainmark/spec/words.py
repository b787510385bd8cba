"""Text that ends up in job scripts: what could break out of its line is refused where it is read."""

import re
from typing import Annotated

from pydantic import AfterValidator

PLAIN = re.compile(r"[\w.:@,+=/%\[\]-]+", re.ASCII)


def one_line(text: str) -> str:
    """The text, if it can stand on one line: a line break in a script would begin a new command."""
    odd = next((letter for letter in text if not letter.isprintable()), None)
    if odd is not None:
        raise ValueError(f"it holds the control character {odd!r}; write it on one line, without such characters")
    return text


def plain_word(text: str) -> str:
    """The text, if it is a name as Slurm has them: letters, digits and . : @ , + = / % [ ] - _ alone."""
    if not PLAIN.fullmatch(text):
        raise ValueError(f"'{one_line(text)}' is no plain word; use letters, digits and . : @ , + = / % [ ] - _ alone")
    return text


def long_option(text: str) -> str:
    """The text, if it is one long option such as --constraint=rome."""
    if not one_line(text).startswith("--") or len(text) < 3:
        raise ValueError("an option begins with two dashes; write it like --constraint=rome")
    return text


OneLine = Annotated[str, AfterValidator(one_line)]
PlainWord = Annotated[str, AfterValidator(plain_word)]
LongOption = Annotated[str, AfterValidator(long_option)]
