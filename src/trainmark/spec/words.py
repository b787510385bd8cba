"""Text that ends up in job scripts: what could break out of its line or its word is refused where it is read."""

import re
from typing import Annotated

from pydantic import AfterValidator

PLAIN = re.compile(r"[\w.:@,+=/%\[][\w.:@,+=/%\[\]-]*", re.ASCII)
NODE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
# Linux allows 15 letters; a / or a space cannot be in the name of an interface.
INTERFACE = re.compile(r"\w[\w.:-]{0,14}", re.ASCII)
GRES = re.compile(r"[A-Za-z_]\w*(:[\w.-]+)?", re.ASCII)
VARIABLE = r"(?:\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})"
FOLDER = re.compile(rf"(?:/|{VARIABLE})(?:{VARIABLE}|[\w./@+=:,%~-])*", re.ASCII)

# A type of accelerator may be called 1080; nodes have fewer of them.
MOST_ACCELERATORS = 64


def one_line(text: str) -> str:
    """The text, if it can stand on one line: a line break in a script would begin a new command."""
    odd = next((letter for letter in text if not letter.isprintable()), None)
    if odd is not None:
        raise ValueError(f"it holds the control character {odd!r}; write it on one line, without such characters")
    return text


def some_text(text: str) -> str:
    """The text, if it is one line and not empty."""
    if not one_line(text).strip():
        raise ValueError("it is empty; write something, or leave the key out")
    return text


def plain_word(text: str) -> str:
    """The text, if it is a name as Slurm has them: letters, digits and . : @ , + = / % [ ] - _ alone."""
    if not PLAIN.fullmatch(text):
        raise ValueError(
            f"'{one_line(text)}' is not a plain word; use letters, digits and . : @ , + = / % [ ] - _ alone, "
            "and no dash at the beginning"
        )
    return text


def node_name(text: str) -> str:
    """The text, if a node may be called so, and lists of nodes may hold it."""
    if not NODE_NAME.fullmatch(text):
        raise ValueError(f"'{one_line(text)}' is not a node name; use letters, digits and . - _ alone")
    return text


def interface_name(text: str) -> str:
    """The text, if Linux could call a network interface so."""
    if not INTERFACE.fullmatch(text):
        raise ValueError(f"'{one_line(text)}' is not a network interface; write one name, as in `ip -brief link`")
    return text


def gres_name(text: str) -> str:
    """The text, if it is a kind of accelerator, without a number: that follows from the plan."""
    if not GRES.fullmatch(text) or (text.rpartition(":")[2].isdecimal() and _is_count(text)):
        raise ValueError(
            f"'{one_line(text)}' is not an accelerator type; write it like gpu or gpu:a100, without their number, "
            "which follows from the slots"
        )
    return text


def _is_count(gres: str) -> bool:
    return int(gres.rpartition(":")[2]) <= MOST_ACCELERATORS


def node_folder(text: str) -> str:
    """The text, if it is an absolute path, in which $NAME and ${NAME} stand for variables of the job."""
    if not FOLDER.fullmatch(text):
        raise ValueError(
            f"'{one_line(text)}' is not an absolute path in letters, digits and . @ + = : , % ~ - _; it may hold "
            "variables such as $TMPDIR; write it like /local/scratch or $TMPDIR"
        )
    return text


def program(text: str) -> str:
    """The text, if it can be the name or path of a program: an option would be taken for one of another's."""
    if some_text(text).startswith("-"):
        raise ValueError(f"'{text}' is an option, not a program; begin with the program's name or path")
    return text


OneLine = Annotated[str, AfterValidator(one_line)]
SomeText = Annotated[str, AfterValidator(some_text)]
PlainWord = Annotated[str, AfterValidator(plain_word)]
NodeName = Annotated[str, AfterValidator(node_name)]
InterfaceName = Annotated[str, AfterValidator(interface_name)]
GresName = Annotated[str, AfterValidator(gres_name)]
NodeFolder = Annotated[str, AfterValidator(node_folder)]
Program = Annotated[str, AfterValidator(program)]
