"""The store of results at ten thousand runs: time to build the index, and to answer queries from it.

Run folders are copies of a real result.json with other ids and figures, in a temporary folder. Queries are measured
in this process, as `trainmark results` makes them: list the folder, stat files, read the index, filter, sort, print.
At most 0.5 s are allowed for the plain list (median).

Usage: python benchmarks/store.py [--runs N] [--repeats N] [--result FILE] [--json FILE]
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainmark.machine.software import describe_machine
from trainmark.report.results_table import print_results, shown_metrics
from trainmark.spec.result import Result
from trainmark.spec.run_folder import RunFolder
from trainmark.store.listing import Lister
from trainmark.store.query import Query

MAX_S = 0.5
RESULT = Path(__file__).parents[1] / "tests/unit/stored_results/of-0.1.0.json"
OLD_S = 1e9  # time stamp of the files: long ago, so that they count as settled

QUERIES = {
    "plain list": Query(),
    "--where 'members>=2 and train.precision=fp32 and flops>5T'": Query(
        "members>=2 and train.precision=fp32 and flops>5T"
    ),
    "--sort -flops --limit 10": Query(sort=("-flops",), limit=10),
}


def write_runs(runs_dir: Path, number: int, result: dict[str, Any]) -> None:
    """Writes run folders that hold a Result, and what makes it current."""
    for i in range(number):
        run_id = f"2026{1 + i % 12:02d}{1 + i // 12 % 28:02d}-{i % 24:02d}{i % 60:02d}{i % 59:02d}-copy-{i:05x}"
        folder = RunFolder(runs_dir / run_id)
        for member in result["members"]:
            folder.attempt(member["member"], member["attempts"]).path.mkdir(parents=True)
        folder.claims.mkdir()
        folder.plan.write_text("{}")
        flops = {**result["metrics"]["flops"], "value": 1e9 * (i + 1)}
        copy = {**result, "run_id": run_id, "metrics": {**result["metrics"], "flops": flops}}
        folder.result.write_text(json.dumps(copy, indent=2))
        for path in (folder.result, folder.claims):
            os.utime(path, (OLD_S, OLD_S))


def answer(lister: Lister, runs_dir: Path, query: Query) -> None:
    """Lists, filters, sorts and prints, as `trainmark results` does."""
    rows, notes = lister.list_runs(runs_dir, [*query.names, *shown_metrics()])
    if notes:
        sys.exit(notes[0])
    with contextlib.redirect_stdout(io.StringIO()):
        print_results(query.select(rows), [row["run_id"] for row in rows], str(runs_dir))


def timed(work: Callable[[], object]) -> float:
    """Returns the seconds that it takes."""
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def no_build(folder: RunFolder) -> Result:
    """Every run has a stored Result."""
    raise AssertionError(folder)


def measure(runs_dir: Path, cache_dir: Path, repeats: int) -> dict[str, list[float]]:
    """Returns the seconds of each measurement, in the order in which they were made."""
    lister = Lister(cache_dir, no_build)
    seconds = {"build of the index": [timed(lambda: answer(lister, runs_dir, Query()))]}
    for _ in range(repeats):
        for name, query in QUERIES.items():
            seconds.setdefault(name, []).append(timed(lambda query=query: answer(lister, runs_dir, query)))  # type: ignore[misc]
    return seconds


def main() -> None:
    """Prints the times; exit code 1 if the plain list takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="number of run folders")
    parser.add_argument("--repeats", type=int, default=10, help="how often each query is timed")
    parser.add_argument("--result", type=Path, default=RESULT, help="the result.json to copy")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    machine = describe_machine()
    with tempfile.TemporaryDirectory() as name:
        runs_dir, cache_dir = Path(name) / "runs", Path(name) / "cache"
        write_runs(runs_dir, options.runs, json.loads(options.result.read_text()))
        seconds = measure(runs_dir, cache_dir, options.repeats)
        size = sum(path.stat().st_size for path in cache_dir.iterdir())
    print(f"{options.runs:,} runs, index of {size / 1e6:.1f} MB, on {machine['cpu']}")
    for what, of in seconds.items():
        spread = f" ({min(of):.3f} – {max(of):.3f}, n = {len(of)})" if len(of) > 1 else " (n = 1)"
        print(f"  {what}: {statistics.median(of):.3f} s{spread}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "runs": options.runs, "seconds": seconds}, indent=2))
    sys.exit(statistics.median(seconds["plain list"]) > MAX_S)


if __name__ == "__main__":
    main()
