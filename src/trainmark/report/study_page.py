"""One or more studies as one self-contained HTML page, and a study's table on a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as ConsoleTable
from rich.text import Text

from trainmark.report.drawing import Figure
from trainmark.report.html import render
from trainmark.spec.table import Table


@dataclass(frozen=True)
class StudySection:
    """The section of the page on one study."""

    study_id: str
    title: str
    documents: str
    facts: list[tuple[str, str]]
    table: Table
    figures: list[Figure]
    runs: list[tuple[str, str, str]]  # id, point, round

    @property
    def numbers(self) -> tuple[int, ...]:
        """The columns that hold numbers, which are right-aligned."""
        return tuple(i for i, heading in enumerate(self.table.headings()) if self.table.is_number(heading))


def study_page(sections: Sequence[StudySection]) -> str:
    """Returns the HTML of a page on these studies."""
    return render("study.html.j2", sections=sections)


def print_study(table: Table, console: Console) -> None:
    """Prints a study's table, findings and caption."""
    shown = ConsoleTable(box=None, header_style="bold", pad_edge=False)
    for heading in table.headings():
        shown.add_column(heading, justify="right" if table.is_number(heading) else "left")
    for line in table.lines():
        shown.add_row(*(Text(cell) for cell in line))
    console.print(shown)
    for finding in table.findings:
        console.print(Text(finding, style="bold"))
    console.print(Text(f"{table.caption}."))
