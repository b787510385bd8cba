"""Progress of a study: which point runs, what it gave, how many are left and for how long."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from rich.console import Console

from trainmark.spec.units import counted, show_duration


class StudyProgress:
    """Prints a line as each run starts and ends; a closed stream must not stop the study."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._seconds: dict[int, list[float]] = {}  # measured, by point

    def started(self, done: int, total: int, label: str, round_: int, rounds: int, *, is_bound: bool = False) -> None:
        """Announces a run; a search may end before the total."""
        most = f"at most {total}" if is_bound else f"{total}"
        self._print(f"run {done + 1} of {most}, round {round_} of {rounds}: {label}")

    def ended(self, point: int, outcome: str, seconds: float, left: Sequence[int], expected_s: float | None) -> None:
        """Tells the outcome of a run and how long the rest will take."""
        if seconds > 0:
            self._seconds.setdefault(point, []).append(seconds)
        rest = f"; {counted(len(left), 'run')} left" if left else ""
        if left and (expected := self.expected(left, expected_s)) is not None:
            rest += f", about {show_duration(expected)}"
        self._print(f"  {outcome}, {show_duration(seconds)}{rest}")

    def expected(self, left: Sequence[int], expected_s: float | None) -> float | None:
        """Expected seconds of the runs left: as measured for their points, else for all points, else as estimated."""
        measured = [seconds for of_point in self._seconds.values() for seconds in of_point]
        if not measured:
            return expected_s
        mean = sum(measured) / len(measured)
        means = {point: sum(of_point) / len(of_point) for point, of_point in self._seconds.items()}
        return sum(means.get(point, mean) for point in left)

    def _print(self, line: str) -> None:
        with suppress(OSError, SystemExit):
            self._console.print(line, soft_wrap=True, markup=False, highlight=False)
