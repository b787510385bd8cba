"""Validation of text that ends up in job scripts: anything that could escape its line or argument is rejected."""

import re
from typing import Annotated

from pydantic import AfterValidator

PLAIN = re.compile(r"[\w.:@,+=/%\[][\w.:@,+=/%\[\]-]*", re.ASCII)
NODE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
# Linux allows 15 characters, without / and space.
INTERFACE = re.compile(r"\w[\w.:-]{0,14}", re.ASCII)
GRES = re.compile(r"[A-Za-z_]\w*(:[\w.-]+)?", re.ASCII)
VARIABLE = r"(?:\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})"
FOLDER = re.compile(rf"(?:/|{VARIABLE})(?:{VARIABLE}|[\w./@+=:,%~-])*", re.ASCII)

# An accelerator type may be called 1080; a larger number than this is not a count.
MAX_ACCELERATORS = 64


def one_line(text: str) -> str:
    """Returns the text if it is one line: a line break in a script would start a new command."""
    odd = next((letter for letter in text if not letter.isprintable()), None)
    if odd is not None:
        raise ValueError(f"it contains the control character {odd!r}; write it on one line without control characters")
    return text


def non_empty_line(text: str) -> str:
    """Returns the text if it is one line and not empty."""
    if not one_line(text).strip():
        raise ValueError("it is empty; give a value, or remove the key")
    return text


def slurm_name(text: str) -> str:
    """Returns the text if it is a valid Slurm name."""
    if not PLAIN.fullmatch(text):
        raise ValueError(
            f"'{one_line(text)}' is not a Slurm name; use only letters, digits and . : @ , + = / % [ ] - _, "
            "without a leading dash"
        )
    return text


def node_name(text: str) -> str:
    """Returns the text if it is a valid node name, also within node lists."""
    if not NODE_NAME.fullmatch(text):
        raise ValueError(f"'{one_line(text)}' is not a node name; use only letters, digits and . - _")
    return text


def interface_name(text: str) -> str:
    """Returns the text if it is a valid name of a network interface on Linux."""
    if not INTERFACE.fullmatch(text):
        raise ValueError(f"'{one_line(text)}' is not a network interface; give one name, as listed by `ip -brief link`")
    return text


def gres_name(text: str) -> str:
    """Returns the text if it is an accelerator type without a count, which follows from the plan."""
    if not GRES.fullmatch(text) or (text.rpartition(":")[2].isdecimal() and _is_count(text)):
        raise ValueError(
            f"'{one_line(text)}' is not an accelerator type; write it like gpu or gpu:a100, without a count: "
            "that follows from the slots"
        )
    return text


def _is_count(gres: str) -> bool:
    return int(gres.rpartition(":")[2]) <= MAX_ACCELERATORS


def node_folder(text: str) -> str:
    """Returns the text if it is an absolute path; $NAME and ${NAME} are variables of the job."""
    if not FOLDER.fullmatch(text):
        raise ValueError(
            f"'{one_line(text)}' is not an absolute path of letters, digits and . @ + = : , % ~ - _; it may contain "
            "variables such as $TMPDIR; write it like /local/scratch or $TMPDIR"
        )
    return text


def program(text: str) -> str:
    """Returns the text if it can be the name or path of a program, not an option of the preceding one."""
    if non_empty_line(text).startswith("-"):
        raise ValueError(f"'{text}' is an option, not a program; start with the program's name or path")
    return text


def interpreter(text: str) -> str:
    """Returns the text if it is a program by absolute path or by name: relative paths differ between nodes."""
    if "/" in program(text) and not text.startswith("/"):
        raise ValueError(f"'{text}' is a relative path; write an absolute one, or the name of a program on PATH")
    return text


OneLine = Annotated[str, AfterValidator(one_line)]
NonEmptyLine = Annotated[str, AfterValidator(non_empty_line)]
SlurmName = Annotated[str, AfterValidator(slurm_name)]
NodeName = Annotated[str, AfterValidator(node_name)]
InterfaceName = Annotated[str, AfterValidator(interface_name)]
GresName = Annotated[str, AfterValidator(gres_name)]
NodeFolder = Annotated[str, AfterValidator(node_folder)]
Program = Annotated[str, AfterValidator(program)]
Interpreter = Annotated[str, AfterValidator(interpreter)]
