"""The common start: ranks go at the moment that the launcher names, and clocks that disagree cannot hold them up."""

import time
from pathlib import Path

import pytest

from trainmark.launch.start_barrier import is_ready, release_ranks
from trainmark.spec.run_folder import AttemptFolder, RunFolder
from trainmark.train.member import wait_for_start


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptFolder:
    folder = RunFolder(tmp_path).attempt(0, 1)
    folder.path.mkdir(parents=True)
    return folder


def test_a_rank_says_that_it_is_ready_and_goes_at_the_moment_that_was_named(attempt: AttemptFolder) -> None:
    assert not is_ready(attempt, 1)
    before = time.monotonic()
    release_ranks([attempt], delay_s=0.3)
    wait_for_start(attempt, 0)
    assert time.monotonic() - before > 0.29
    assert is_ready(attempt, 1) and not is_ready(attempt, 2)


@pytest.mark.parametrize(("clock_is_off_s", "waits_s"), [(-1000, 2), (1000, 0)])
def test_a_clock_that_is_behind_costs_the_delay_and_no_more_and_one_that_is_ahead_nothing(
    attempt: AttemptFolder, monkeypatch: pytest.MonkeyPatch, clock_is_off_s: float, waits_s: float
) -> None:
    release_ranks([attempt], delay_s=2)
    slept: list[float] = []
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + clock_is_off_s)
    monkeypatch.setattr(time, "sleep", slept.append)
    wait_for_start(attempt, 0)
    assert slept == [waits_s]
