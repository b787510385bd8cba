"""One or more studies as one self-contained HTML page."""

from collections.abc import Sequence
from dataclasses import dataclass

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
