"""The rank that failed first is named, not the peers it took along."""

import json
from pathlib import Path

from trainmark.launch.blame import explain_failure
from trainmark.spec.run_folder import AttemptFolder


def attempt(tmp_path: Path, **failures: tuple[float, str]) -> AttemptFolder:
    folder = AttemptFolder(tmp_path, tmp_path)
    for rank, (wall_s, error) in failures.items():
        event = {"kind": "failed", "wall_s": wall_s, "error": error}
        folder.rank_events(int(rank[1:])).write_text(json.dumps(event) + "\n")
    return folder


def test_a_killed_rank_is_blamed_before_the_peers_that_lost_it(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "RuntimeError: Connection closed by peer"))
    assert explain_failure(folder, [1, -9]).startswith(
        "rank 1 killed by signal 9 (SIGKILL); the machine may have run out"
    )


def test_the_earliest_error_is_the_cause(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "RuntimeError: Connection closed"), r1=(4.9, "ValueError: bad sample"))
    assert explain_failure(folder, [1, 1]).startswith("rank 1 failed: ValueError: bad sample (log: ")


def test_a_full_disk_is_told_by_the_exit_code_alone(tmp_path: Path) -> None:
    assert "no space left" in explain_failure(attempt(tmp_path), [28, None])


def test_a_silent_end_names_the_log(tmp_path: Path) -> None:
    told = explain_failure(attempt(tmp_path), [None, 3])
    assert told == f"rank 1 ended with exit code 3 (log: {tmp_path / 'rank-1.log'})"


def test_an_abort_that_follows_from_a_peers_error_is_not_the_cause(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r1=(4.9, "ValueError: bad sample"))
    assert explain_failure(folder, [-6, 1]).startswith("rank 1 failed: ValueError: bad sample")


def test_an_abort_is_the_cause_when_the_peers_only_lost_a_connection(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r1=(4.9, "RuntimeError: Connection reset by peer"))
    assert explain_failure(folder, [-6, 1]).startswith("rank 0 killed by signal 6 (SIGABRT)")
