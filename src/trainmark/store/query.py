"""Query: which runs of a list are wanted, in which order, and how many."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trainmark.spec.condition import NAME, Condition, parse
from trainmark.spec.errors import ConfigError, UnknownNameError
from trainmark.spec.expression import plain
from trainmark.spec.registry import did_you_mean
from trainmark.spec.run_facts import ALIASES, COLUMNS, PLACE, Row, known_names


@dataclass(frozen=True)
class Query:
    """What is asked: a condition, columns with one value, names to sort by (`-name`: from the largest), how many runs.

    `shown` are further names whose values are needed.
    """

    where: str | None = None
    equal: Mapping[str, str | None] = field(default_factory=dict)  # None: any
    sort: tuple[str, ...] = ()
    limit: int | None = None
    shown: tuple[str, ...] = ()

    @cached_property
    def condition(self) -> Condition | None:
        """The parsed condition; raises ConditionError."""
        return None if self.where is None else parse(self.where, known_names().__contains__)

    @property
    def names(self) -> list[str]:
        """The facts that the query needs of each run, as the listing knows them."""
        given = [*(self.condition.names if self.condition else ()), *(_key(name) for name in self.sort), *self.shown]
        return [fact_name(name) for name in given if fact_name(name) not in PLACE]

    def check_names(self, rows: Sequence[Row]) -> None:
        """Raises if a name is neither known nor a fact of any of the runs."""
        known = known_names()
        known |= {name for name in self.names if name not in known and any(row[name] is not None for row in rows)}
        for name in (*map(_key, self.sort), *self.shown):
            if name not in known:
                raise UnknownNameError(
                    f"No run has a value called '{name}'.{did_you_mean(name, sorted(known))} Names are columns, "
                    "metrics (trainmark list metrics) and settings such as train.precision."
                )
        if self.condition:
            self.condition.check_names(known)

    def select(self, rows: Iterable[Row]) -> list[Row]:
        """Returns the runs that are wanted, in order; runs without a value are the last."""
        equal = {name: value for name, value in self.equal.items() if value is not None}
        found = [row for row in rows if all(row[name] == value for name, value in equal.items())]
        if self.condition is not None:
            found = [row for row in found if self.condition.holds(_lookup(row))]
        for name in reversed(self.sort):  # sorting keeps the order of equals, also in reverse
            keys = {id(row): _order(row[fact_name(_key(name))]) for row in found}
            having = [row for row in found if keys[id(row)] is not None]
            having.sort(key=lambda row: keys[id(row)] or (), reverse=name.startswith("-"))
            found = having + [row for row in found if keys[id(row)] is None]
        return found if self.limit is None else found[: self.limit]


def _order(value: Any) -> tuple[bool, Any] | None:
    """Returns what a value is sorted by, numbers before texts; None: it is missing."""
    found = plain(value)
    if isinstance(found, frozenset):
        found = " ".join(sorted(found)) or None
    return None if found is None else (isinstance(found, str), found)


def _key(sorted_by: str) -> str:
    return sorted_by.removeprefix("-")


def fact_name(name: str) -> str:
    """Returns the name under which a run's facts have it: `tags` for tag."""
    return ALIASES.get(name, name)


def _lookup(row: Row) -> Callable[[str], Any]:
    return lambda name: row.get(fact_name(name))


def split_names(given: str | None, option: str) -> tuple[str, ...]:
    """Splits comma-separated names; raises if one is none."""
    if given is None:
        return ()
    names = tuple(name.strip() for name in given.split(","))
    for name in names:
        if not NAME.fullmatch(name.removeprefix("-") if option == "--sort" else name):
            raise ConfigError(f"{option} {given!r} has '{name}', which is not a name. Separate names with commas.")
    return tuple(dict.fromkeys(names))


def columns_of(metrics: Collection[str]) -> tuple[str, ...]:
    """Returns the names of a whole record in the order in which JSON and CSV have them."""
    last = ("reason", "damage")
    return (*PLACE, *(name for name in COLUMNS if name not in last), *metrics, *last)
