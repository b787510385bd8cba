"""Table: the outcome of a study, one row per point, as CSV and JSON."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from trainmark.spec.config import Section, Setting
from trainmark.spec.units import show_value, show_with_interval

Cell = Setting | None


class Column(NamedTuple):
    """One column: its name in files, its unit, and its heading for people."""

    name: str
    unit: str = ""
    label: str = ""
    is_shown: bool = True  # to people; files have all columns

    @property
    def heading(self) -> str:
        """The heading for people."""
        return self.label or self.name.replace("_", " ")


class Table(Section):
    """Rows by column name; None is a gap, and the row's `note` says why."""

    columns: tuple[Column, ...]
    rows: tuple[dict[str, Cell], ...]
    caption: str = ""  # machine, software, number of runs, meaning of the intervals
    findings: tuple[str, ...] = ()  # what the study found, one sentence each
    max_spread: float | None = None  # of the repeats of a point: larger ones are flagged
    trained: dict[str, Any] = Field(default_factory=dict)  # what the runs trained, and the command that repeats them
    facts: dict[str, Any] = Field(default_factory=dict)  # further figures that the study's figures need

    @field_validator("facts", "trained")
    @classmethod
    def _as_stored(cls, facts: dict[str, Any]) -> dict[str, Any]:
        """Returns the facts as table.json holds them, so that figures are the same drawn now and drawn again."""
        stored: dict[str, Any] = json.loads(json.dumps(facts))
        return stored

    def column(self, name: str) -> Column:
        """Returns a column by name."""
        return next(column for column in self.columns if column.name == name)

    def has(self, name: str) -> bool:
        """Whether any row has a value in this column."""
        return any(row.get(name) is not None for row in self.rows)

    def values(self, name: str) -> list[Cell]:
        """Returns a column's distinct values, in order of appearance, without gaps."""
        return list(dict.fromkeys(row[name] for row in self.rows if row.get(name) is not None))

    def where(self, **coordinates: Cell) -> list[dict[str, Cell]]:
        """Returns the rows with these values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in coordinates.items())]

    def as_csv(self, line_end: str = "\n") -> str:
        """The text of table.csv; a gap is an empty field."""
        file = io.StringIO()
        writer = csv.DictWriter(file, [column.name for column in self.columns], lineterminator=line_end)
        writer.writeheader()
        writer.writerows(self.rows)
        return file.getvalue()

    def as_json(self) -> str:
        """The text of table.json, from which figures can be drawn again."""
        return self.model_dump_json(indent=2) + "\n"

    def headings(self) -> list[str]:
        """Returns the headings of the columns for people."""
        return [column.heading for column in self._shown()]

    def lines(self) -> list[list[str]]:
        """Returns the rows for people: values with units, intervals beside them."""
        return [[_show(column, row) for column in self._shown()] for row in self.rows]

    def axes(self) -> list[Column]:
        """Returns the columns that say where a row is: those before the first with an interval, else the first."""
        names = {column.name for column in self.columns}
        measured = (i for i, column in enumerate(self.columns) if f"{column.name}_low" in names)
        return list(self.columns[: next(measured, 1)])

    def is_number(self, heading: str) -> bool:
        """Whether a column for people holds numbers."""
        column = next(column for column in self.columns if column.heading == heading)
        return all(isinstance(row.get(column.name), int | float | None) for row in self.rows)

    def _shown(self) -> list[Column]:
        return [column for column in self.columns if column.is_shown]


def _show(column: Column, row: Mapping[str, Cell]) -> str:
    value = row.get(column.name)
    if value is None:
        return "–"
    low, high = (row.get(f"{column.name}_{end}") for end in ("low", "high"))
    if all(isinstance(each, int | float) for each in (value, low, high)) and low != high:
        return show_with_interval(float(value), float(low or 0), float(high or 0), column.unit)
    if isinstance(value, float) or (column.unit and not isinstance(value, str | bool)):
        return show_value(value, column.unit)
    return str(value)
