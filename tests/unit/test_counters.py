"""Hardware counters by perf_event_open: software events for real, hardware ones where there are any."""

import errno
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainmark.machine import counters
from trainmark.machine.counters import INSTRUCTIONS, PAGE_FAULTS, TASK_CLOCK_NS, Kind, counting, explain

PAGES = 500


def touch_pages() -> None:
    """Writes to pages that were never touched before: a fault each."""
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1


def faults(work: Callable[[], None]) -> int:
    with counting([PAGE_FAULTS]) as found:
        if found.reasons:
            pytest.skip(found.reasons["page_faults"])
        work()
        count = found.read()["page_faults"]
    assert count is not None
    return count


def test_page_faults_of_this_thread_are_counted() -> None:
    assert PAGES <= faults(touch_pages) < 3 * PAGES


@contextmanager
def waiting_thread() -> Iterator[Callable[[], None]]:
    """A thread that exists before anything is counted, and touches pages when it is told to."""
    begin, done, end = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        touch_pages()
        done.set()
        end.wait()

    def touch() -> None:
        begin.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    yield touch
    begin.set()
    end.set()
    thread.join()


def test_threads_count_whether_they_were_there_before_or_come_later() -> None:
    def later() -> None:
        thread = threading.Thread(target=touch_pages)
        thread.start()
        thread.join()

    assert PAGES <= faults(later) < 3 * PAGES
    with waiting_thread() as touch:
        assert PAGES <= faults(touch) < 3 * PAGES


def test_nothing_is_counted_while_paused() -> None:
    with counting([PAGE_FAULTS, TASK_CLOCK_NS]) as found:
        if found.reasons:
            pytest.skip(str(found.reasons))
        found.pause()
        before = found.read()
        touch_pages()
        assert found.read() == before
        found.resume()
        touch_pages()
        after = found.read()
    assert after["page_faults"] is not None and before["page_faults"] is not None
    assert after["page_faults"] - before["page_faults"] >= PAGES
    assert (after["task_clock_ns"] or 0) > (before["task_clock_ns"] or 0)


def test_a_counter_that_does_not_exist_says_why() -> None:
    with counting([Kind("instructions", 0, 250)]) as found:
        event = found.as_event()
    assert found.read() == {"instructions": None}
    assert event.instructions is None and event.reason


def test_hardware_counters_are_numbers_or_a_reason() -> None:
    with counting() as found:
        touch_pages()
        event = found.as_event()
    assert (event.reason is None) == (event.instructions is not None)
    if event.instructions is not None:
        assert event.instructions > PAGES


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "(perf_event_paranoid is 4). Ask for sysctl kernel.perf_event_paranoid=2"),
        (errno.EPERM, "the kernel does not allow it"),
        (errno.ENOENT, "no hardware counters here, as in most virtual machines"),
        (errno.EOPNOTSUPP, "no hardware counters here"),
        (errno.ENOSYS, "this system has no perf_event_open"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EINVAL, "Invalid argument"),
    ],
)
def test_errors_are_explained(number: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "paranoid").write_text("4\n")
    monkeypatch.setattr(counters, "PARANOID", tmp_path / "paranoid")
    assert said in explain(number)


def test_a_refused_counter_is_the_reason_of_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_open", lambda kind, thread: (-1, errno.EPERM))
    with counting([INSTRUCTIONS]) as found:
        assert "does not allow it" in (found.as_event().reason or "")


def test_another_architecture_has_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    with counting([INSTRUCTIONS]) as found:
        assert found.as_event().reason == "this system has no perf_event_open"
