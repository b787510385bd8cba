"""Point: one place on the axes of a study, and the settings that make it."""

from typing import Annotated

from pydantic import AfterValidator, Field

from trainmark.spec.config import Section, Setting


def _printable(value: Setting) -> Setting:
    """Returns the value of an axis, which tables, figures and terminals show."""
    if isinstance(value, str) and not value.isprintable():
        raise ValueError("must be printable")
    return value


class Point(Section):
    """One point of a study: where it is on the axes, and the settings that make it."""

    at: dict[str, Annotated[Setting, AfterValidator(_printable)]]
    settings: dict[str, Setting] = Field(default_factory=dict)
    slot_cores: int | None = None  # cores per worker slot on each node; None: as the site has them
    is_default: bool = False  # whether the plan would choose it by itself; noted in the table

    @property
    def label(self) -> str:
        """`threads=2 batch=64`."""
        return " ".join(f"{name}={_text(value)}" for name, value in self.at.items())


def _text(value: Setting) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
