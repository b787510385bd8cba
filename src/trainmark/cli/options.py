"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="TRAINMARK_RUNS_DIR", help="Folder in which runs are stored.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else there.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, a unique prefix of it, its path, or 'latest'.")
]
DatasetName = Annotated[str, typer.Argument(metavar="WORKLOAD|DATASET", help="See `trainmark list datasets`.")]
DatasetSetting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the dataset, e.g. num_train=100.")
]

DEFAULT_RUNS_DIR = Path("runs")
