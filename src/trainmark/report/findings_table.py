"""Findings as people read them: what was looked at, what was found, what to do."""

from rich.table import Table

from trainmark.spec.finding import Finding

MARKS = {"good": "ok", "warning": "!", "problem": "PROBLEM"}


def findings_table(findings: list[Finding]) -> Table:
    """One row per finding, in the order in which things were looked at."""
    table = Table("", "what", "found", "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(MARKS[finding.verdict], finding.what, finding.found, finding.fix)
    return table
