"""`trainmark report` as a user runs it: a real run's page, several runs, unfinished runs, wrong input."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.conftest import Command
from tests.run_events import events_of

RunSmall = Callable[..., dict[str, Any]]


def test_a_run_gets_its_page_and_so_do_several_and_unfinished_ones(
    warm_trainmark: Command, run_small: RunSmall, tmp_path: Path
) -> None:
    result = run_small("--members", "2")
    folder = tmp_path / "runs" / result["run_id"]

    done = warm_trainmark("report")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder / 'report.html'}\n"
    page = (folder / "report.html").read_text()
    _shows_the_run(page, result, folder)

    refused = warm_trainmark("report", "latest", "-o", "again/page.html")
    assert (refused.returncode, (tmp_path / "again").exists()) == (2, False)
    assert "a folder that does not exist. Create the folder" in refused.stderr
    (tmp_path / "again").mkdir()
    again = warm_trainmark("report", "latest", "--json", "-o", "again/page.html")
    assert json.loads(again.stdout) == {"report": str(tmp_path / "again" / "page.html")}
    assert (tmp_path / "again" / "page.html").read_text() == page

    killed = tmp_path / "runs" / "99991231-killed"
    shutil.copytree(folder, killed)
    for name in ("result.json", "jobs/0001/attempt-1/done.json", "jobs/0001/attempt-1/exit.json"):
        (killed / name).unlink()
    both = warm_trainmark("report", result["run_id"], "latest", str(killed), "-o", "both.html")
    assert both.returncode == 0, both.stderr
    page = (tmp_path / "both.html").read_text()
    assert page.count("<section ") == 2  # latest is the killed one: named twice, shown once
    assert '<a href="#run-2">99991231-killed</a>: image-classification, unfinished' in page
    assert "the launcher was killed while this member was training" in page

    refused = warm_trainmark("report", result["run_id"], "latest")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Choose one with -o FILE.html" in refused.stderr
    for wrong in ("runs/latest/result.json", "page.txt", "again", "runs.html"):
        (tmp_path / "runs.html").mkdir(exist_ok=True)
        refused = warm_trainmark("report", "latest", "-o", wrong)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), wrong
        assert "does not name an HTML file" in refused.stderr

    events = killed / "events" / "0000" / "attempt-1" / "rank-0.jsonl"
    events.write_text(events.read_text() + '{"kind": "steps", "step_s": ["x"], "loss": []}\n')
    broken = warm_trainmark("report", "latest")
    assert (broken.returncode, broken.stderr) == (0, "")
    page = (killed / "report.html").read_text()
    assert "member 0 finished, but events/0000/attempt-1/rank-0.jsonl has 1 damaged line" in page


def _shows_the_run(page: str, result: dict[str, Any], folder: Path) -> None:
    assert f"<h1>Run {result['run_id']}</h1>" in page
    assert f"{result['metrics']['quality_ensemble']['value']:.4g}" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 5
    assert all(ElementTree.fromstring(drawing).get("role") == "img" for drawing in drawings)
    blocks = [event for event in events_of(folder) if event["kind"] == "steps"]
    highest = max(rate for block in blocks for rate in block["learning_rate"])
    assert f"Highest {highest:.4g};" in page
    # Everything that a browser could fetch is inside the page.
    assert all(target.startswith("#") for target in re.findall(r'(?:href|src)="([^"]*)"', page))
    assert "<script" not in page


def test_a_run_that_does_not_exist_is_one_line_and_exit_code_two(warm_trainmark: Command, tmp_path: Path) -> None:
    done = warm_trainmark("report", "nothing")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "No runs in" in done.stderr
    assert list(tmp_path.iterdir()) == []
