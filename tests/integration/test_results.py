"""The commands on stored runs: results with filters, order, groups and CSV; tag; remove."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command
from tests.unit.written_runs import write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, flops in enumerate([3e9, None, 1e9]):
        write_run(tmp_path / "runs", number, flops, started_at=f"2026-11-1{number}T00:00:00+00:00")
    return tmp_path / "runs"


def listed(warm_trainmark: Command, *arguments: str) -> list[dict[str, Any]]:
    done = warm_trainmark("results", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_results_are_filtered_sorted_cut_and_have_the_chosen_columns(runs: Path, warm_trainmark: Command) -> None:
    assert listed(
        warm_trainmark, "--where", "train.precision=fp32 and flops>0", "--sort", "-flops", "--columns", "flops,tag"
    ) == [{"flops": 3e9, "tag": []}, {"flops": 1e9, "tag": []}]
    newest = listed(warm_trainmark, "--sort", "-started_at", "--limit", "1", "--reindex")
    assert [row["started_at"][:10] for row in newest] == ["2026-11-12"]
    assert listed(warm_trainmark, "--where", "started_at<2026-11-11", "--columns", "flops") == [{"flops": 3e9}]


def test_results_as_csv_have_a_row_for_every_run(runs: Path, warm_trainmark: Command) -> None:
    write_run(runs, 8).result.write_text("{")
    text = warm_trainmark("results", "--csv").stdout
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["flops"] for row in rows] == ["3000000000.0", "", "1000000000.0", ""]
    assert [row["state"] for row in rows] == ["complete"] * 3 + ["unreadable"]
    assert "cannot be read as a Result" in rows[3]["reason"]


def test_groups_are_printed_as_table_csv_and_json(runs: Path, warm_trainmark: Command) -> None:
    grouped = ("results", "--group", "model", "--columns", "flops")
    assert warm_trainmark(*grouped).stdout.splitlines()[1].split() == (
        ["resnet-tiny", "3", "2", "(1", "–", "3)", "GFLOP/s"]
    )
    assert json.loads(warm_trainmark(*grouped, "--json").stdout) == [
        {"model": "resnet-tiny", "runs": 3, "flops": 2e9, "flops_low": 1e9, "flops_high": 3e9, "flops_n": 2}
    ]
    head, row = warm_trainmark(*grouped, "--csv").stdout.split("\r\n")[:2]
    assert (head, row) == (
        "model,runs,flops,flops_low,flops_high,flops_n",
        "resnet-tiny,3,2000000000.0,1000000000.0,3000000000.0,2",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "membrs>3"], "at 'membrs' (character 1): there is no value of this name. Did you mean 'members'?"),
        (["--where", "members>"], "is wrong at its end"),
        (["--sort", "-flop"], "No run has a value called 'flop'. Did you mean 'flops'?"),
        (["--columns", "a,,b"], "which is not a name"),
        (["--csv", "--json"], "exclude each other"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    runs: Path, warm_trainmark: Command, arguments: list[str], message: str
) -> None:
    done = warm_trainmark("results", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unusable_cache_folder_is_one_note_on_standard_error(
    runs: Path, warm_trainmark: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = warm_trainmark("results", "--json", TRAINMARK_CACHE_DIR=str(tmp_path / "file"))
    assert len(json.loads(done.stdout)) == 3
    assert done.stderr.startswith("Note: The index ")
    assert done.stderr.count("\n") == 1


def test_a_run_is_tagged_shown_filtered_and_untagged(runs: Path, warm_trainmark: Command) -> None:
    run = sorted(path.name for path in runs.iterdir())[1]
    tagged = warm_trainmark("tag", "20261115-000001", "+baseline", "night", "--note", "after the update")
    assert tagged.stdout == f"run {run}\ntags: baseline night\nnote: after the update\n"
    shown = warm_trainmark("show", "20261115-000001").stdout.splitlines()
    assert "tags: baseline night" in shown and "note: after the update" in shown
    (row,) = listed(warm_trainmark, "--where", "tag=baseline")
    assert (row["run_id"], row["tags"], row["note"]) == (run, ["baseline", "night"], "after the update")
    removed = warm_trainmark("tag", "20261115-000001", "-baseline", "-night", "--json", "--note", "")
    assert json.loads(removed.stdout) == {"run_id": run, "tags": [], "note": None}
    assert warm_trainmark("tag", "20261115-000001").stdout == f"run {run}\nno tags\n"
    wrong = warm_trainmark("tag", "20261115-000001", "--nope")
    assert (wrong.returncode, wrong.stderr) == (2, "trainmark: No such option: --nope. See: trainmark tag --help\n")


def test_removing_needs_a_confirmation_and_says_what_was_freed(runs: Path, warm_trainmark: Command) -> None:
    refused = warm_trainmark("remove", "20261115-000001")
    assert (refused.returncode, len(list(runs.iterdir()))) == (2, 3)
    assert "add --yes" in refused.stderr
    done = warm_trainmark("remove", "20261115-000001", "20261115-000002", "latest", "--yes")
    assert done.returncode == 0
    assert done.stdout.startswith("removed 2 runs, ")
    assert done.stdout.endswith("iB freed\n")
    assert [row["run_id"][9:15] for row in listed(warm_trainmark)] == ["000000"]


@pytest.mark.parametrize(("answer", "left"), [("y", 2), ("n", 3), ("", 3)])
def test_on_a_terminal_removing_asks(runs: Path, tmp_path: Path, answer: str, left: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainmark", "remove", "latest"],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.write(ours, f"{answer}\n".encode())
    code = process.wait(60)
    os.close(theirs)
    assert code == (0 if answer == "y" else 2)
    assert "Remove 1 run with all files? [y/N]" in os.read(ours, 10_000).decode()
    assert len(list(runs.iterdir())) == left
