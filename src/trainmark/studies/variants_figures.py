"""Figures of the study of variants: improvements in training and in inference, by variant and by build."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trainmark.report.bars import Bars
from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.table import Cell, Table
from trainmark.studies.tables import bars_of, figure


class Phase(NamedTuple):
    """Training or inference: the metric of its speed, and the columns of its improvements."""

    name: str
    speed: str

    @property
    def over_variant(self) -> str:
        """The column of the improvement over eager."""
        return f"{self.name}_over_eager"

    @property
    def over_build(self) -> str:
        """The column of the improvement over the first build."""
        return f"{self.name}_over_build"


TRAINING = Phase("training", "throughput_samples_per_s")
INFERENCE = Phase("inference", "inference_samples_per_s")


def variant_figures(table: Table) -> list[Figure]:
    """Returns the figures of the table: per dataset, variants, and builds if there are several."""
    found = []
    for dataset in table.values("dataset"):
        cases = [case for case in cases_of(table) if case["dataset"] == dataset]
        text = f"Improvement over {table.facts['variant']}: speed over its speed − 1; dataset {dataset}"
        base = str(table.facts["variant"])
        rows = [[_plot(table, phase, phase.over_variant, base, cases)] for phase in (TRAINING, INFERENCE)]
        found.append(figure(table, f"variants-{dataset}", "Variants", text, *rows, height=2.4))
        if table.has(TRAINING.over_build) or table.has(INFERENCE.over_build):
            base = short_names(table.values("python"))[next(iter(table.facts["builds"]))]
            text = f"Improvement of each build over {base}, variant by variant; dataset {dataset}"
            rows = [[_plot(table, phase, phase.over_build, base, cases)] for phase in (TRAINING, INFERENCE)]
            found.append(figure(table, f"builds-{dataset}", "Builds", text, *rows, height=2.4))
    return found


def _plot(table: Table, phase: Phase, column: str, base: str, cases: Sequence[dict[str, Cell]]) -> Plot:
    drawn = tuple(_bars(table, column, case) for case in cases)
    return Plot(phase.name, "", "improvement (%)", references=(Reference(base, 0.0),), bars=drawn)


def _bars(table: Table, column: str, case: dict[str, Cell]) -> Bars:
    rows = table.where(**case)
    names = [bar_name(row, table.facts) for row in rows]
    build = [short_names(table.values("python"))[case["python"]]] if "python" in case else []
    return bars_of(" with ".join([str(case["model"]), *build]), names, rows, column, factor=100)


def cases_of(table: Table) -> list[dict[str, Any]]:
    """Returns what is compared with eager separately: dataset, model and, where given, Python."""
    names = [name for name in ("dataset", "model", "python") if table.has(name)]
    return [dict(each) for each in dict.fromkeys(tuple((name, row[name]) for name in names) for row in table.rows)]


def bar_name(row: Mapping[str, Cell], eager: dict[str, Any]) -> str:
    """The variant; the allocator, where it is another."""
    return str(row["variant"] if row["allocator"] == eager["allocator"] else row["allocator"])


def short_names(pythons: Iterable[Cell]) -> dict[Cell, str]:
    """Returns as much of the end of each path as tells all apart: `gcc12` of `/opt/envs/gcc12/bin/python`."""
    parts = {python: re.sub(r"/bin/python[\d.]*$", "", str(python)).rstrip("/").split("/") for python in pythons}
    for length in range(1, max(map(len, parts.values()), default=0) + 1):
        names = {python: "/".join(of_python[-length:]) for python, of_python in parts.items()}
        if len(set(names.values())) == len(names):
            return names
    return {python: str(python) for python in parts}  # several interpreters of one folder
