"""A study's table on a terminal: as many columns side by side as fit, the others below, long notes as footnotes."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table as ConsoleTable
from rich.text import Text

from trainmark.spec.table import Table

NOTE = "note"
MAX_NOTE = 24  # characters of a note within the table: longer ones are footnotes
MAX_CELL = 36  # characters: longer cells wrap
MAX_HEADING_LINES = 3
GAP = 2  # between columns


class _Column(NamedTuple):
    heading: str
    cells: Sequence[str]
    is_number: bool

    @property
    def width(self) -> int:
        """As narrow as cells and heading allow."""
        least = max(map(len, self.heading.split()), default=1)
        for_heading = next(w for w in range(least, 999) if len(textwrap.wrap(self.heading, w)) <= MAX_HEADING_LINES)
        return max(for_heading, min(MAX_CELL, max(map(len, self.cells), default=1)))


def print_study(table: Table, console: Console) -> None:
    """Prints a study's table, footnotes, findings and caption."""
    lines = table.lines()
    cells = dict(zip(table.headings(), zip(*lines, strict=True), strict=True)) if lines else {}
    footnotes = _footnotes(cells.get(NOTE, ()))
    if footnotes:
        cells[NOTE] = tuple(footnotes.get(note, "") for note in cells[NOTE])
    elif not any(cells.get(NOTE, ())):
        cells.pop(NOTE, None)
    columns = [_Column(heading, of_column, table.is_number(heading)) for heading, of_column in cells.items()]
    num_axes = len(table.axes())
    axes, others = columns[:num_axes], columns[num_axes:]
    if footnotes:  # their marks, which are narrow, are never a part of their own
        others.sort(key=lambda column: column.heading != NOTE)
    for number, block in enumerate(_blocks(axes, others, console.width)):
        if number:
            console.print()
        console.print(_drawn(block, console.width))
    for note, mark in footnotes.items():
        console.print(Text(f"{mark} {note}"))
    for finding in table.findings:
        console.print(Text(finding, style="bold"))
    console.print(Text(f"{table.caption}."))


def _footnotes(notes: Sequence[str]) -> dict[str, str]:
    """Returns the mark of each note, `[1]` and so on; empty if all are short enough for the table."""
    different = dict.fromkeys(note for note in notes if note)
    if max(map(len, different), default=0) <= MAX_NOTE:
        return {}
    return {note: f"[{number}]" for number, note in enumerate(different, 1)}


def _blocks(axes: Sequence[_Column], others: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
    """Yields the columns of each part of the table; the axes begin every part."""
    block: list[_Column] = []
    for column in others:
        if block and _width((*axes, *block, column)) > width:
            yield [*axes, *block]
            block = []
        block.append(column)
    yield [*axes, *block]


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width + GAP for column in columns) - GAP


def _drawn(columns: Sequence[_Column], width: int) -> ConsoleTable:
    drawn = ConsoleTable(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    fits = _width(columns) <= width  # else rich makes columns narrower
    for column in columns:
        width_of = column.width if fits else None
        drawn.add_column(column.heading, justify="right" if column.is_number else "left", width=width_of)
    for cells in zip(*(column.cells for column in columns), strict=True):
        drawn.add_row(*map(Text, cells))
    return drawn
