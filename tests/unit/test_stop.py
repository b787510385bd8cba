"""Signals stop work where it is safe, and none is lost."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trainmark.machine.stop import SIGNALS, pause, raise_if_stopped, stoppable
from trainmark.spec.errors import InterruptedRunError


@contextmanager
def stopped(by: signal.Signals) -> Iterator[None]:
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(InterruptedRunError, match=f"^Stopped by {by.name}; all is kept$"), stoppable("; all is kept"):
        yield
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.parametrize("by", SIGNALS)
def test_the_first_signal_is_raised_where_work_can_be_left(by: signal.Signals) -> None:
    reached = []
    with stopped(by):
        signal.raise_signal(by)
        reached.append("after the signal")
        raise_if_stopped()
        reached.append("after the check")
    assert reached == ["after the signal"]


def test_a_signal_that_nobody_looked_for_is_raised_at_the_end() -> None:
    with stopped(signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_in_the_hooks_of_a_fork_is_not_lost() -> None:
    # What such a hook raises is printed and dropped by Python; logging has one in every process.
    during = [True]
    os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT) if during else None)
    with stopped(signal.SIGINT):
        child = os.fork()
        if child == 0:
            os._exit(0)
        during.clear()
        os.waitpid(child, 0)
        pause(60)


def test_a_command_under_way_ends_before_the_signal_is_raised() -> None:
    # An exception inside subprocess can leave its lock held, and the process waiting for ever.
    with stopped(signal.SIGINT):
        done = subprocess.run(["sh", "-c", f"kill -INT {os.getpid()}; echo whole"], capture_output=True, text=True)
        assert done.stdout == "whole\n"
        raise_if_stopped()


def test_a_second_signal_does_not_wait() -> None:
    with stopped(signal.SIGINT):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the second signal was only noted")


def test_once_the_error_is_raised_signals_no_longer_disturb_the_cleanup() -> None:
    cleaned = []
    with stopped(signal.SIGINT):
        signal.raise_signal(signal.SIGINT)
        try:
            raise_if_stopped()
        finally:
            signal.raise_signal(signal.SIGINT)
            cleaned.append("up")
    assert cleaned == ["up"]


def test_a_pause_ends_soon_after_a_signal_and_lasts_its_time_without() -> None:
    began = time.monotonic()
    pause(0.25)
    assert time.monotonic() - began >= 0.25
    with stopped(signal.SIGHUP):
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -HUP {os.getpid()}"])
        pause(60)
    killer.wait()
    assert time.monotonic() - began < 30


def test_signals_ignored_before_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable(""):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_within_work_that_is_stoppable_a_part_of_it_has_its_own_outcome() -> None:
    with (
        pytest.raises(InterruptedRunError, match=r"^Stopped by SIGINT: the part$"),
        stoppable(": the whole"),
        stoppable(": the part"),
    ):
        signal.raise_signal(signal.SIGINT)
        raise_if_stopped()
    with pytest.raises(InterruptedRunError, match=r"^Stopped by SIGINT: the whole$"), stoppable(": the whole"):
        with stoppable(": the part"):
            pass
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_no_error_that_a_metric_or_a_damaged_file_may_have() -> None:
    assert not issubclass(InterruptedRunError, Exception)
