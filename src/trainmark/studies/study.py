"""Study: points, analysis and figures as pure functions, and what a user asks for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainmark.report.drawing import Figure
from trainmark.spec.config import RunChoices, Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.site import Site
from trainmark.spec.table import Table
from trainmark.studies.outcomes import Outcomes
from trainmark.studies.point import Point

Values = tuple[Setting, ...]
Overrides = Mapping[str, Setting]  # dotted names of settings → values
LENGTHS = {"train.epochs", "train.steps", "train.minutes"}


@dataclass(frozen=True)
class Request:
    """What the user asked for: the site, the base of all runs, and the values of the axes that he gave."""

    site: Site
    base: RunChoices  # the study's settings and the user's
    given: Mapping[str, Values] = field(default_factory=dict)
    is_smallest: bool = False  # each axis as short as possible, to see the study work

    @property
    def cores_per_node(self) -> int:
        """Cores of the smallest node."""
        return min(len({core for slot in group.slots for core in slot.cores}) for group in self.site.groups)

    @property
    def num_slots(self) -> int:
        """Worker slots of the site."""
        return self.site.num_slots


class Axis(NamedTuple):
    """What a study varies, and the values that it takes unless the user gives others."""

    name: str  # the flag is --name
    help: str
    default: Callable[[Request], Sequence[Setting]]
    smallest: Callable[[Request], Sequence[Setting]] | None = None  # default: the first and the last
    kind: type[int] | type[float] | type[str] = int
    setting: str = ""  # the setting that it replaces, which --set may then not set
    choices: Callable[[], Iterable[str]] | None = None  # the names that it takes; None: any, checked by planning
    least: int = 1  # of whole numbers

    def values(self, request: Request) -> Values:
        """The user's values, or the default ones."""
        if self.name in request.given:
            return request.given[self.name]
        values = tuple(self.default(request))
        if not request.is_smallest:
            return values
        return tuple(self.smallest(request)) if self.smallest else tuple(dict.fromkeys((values[0], values[-1])))


def no_more(outcomes: Outcomes) -> list[Point]:
    """The points of most studies are all known at the start."""
    return []


@dataclass(frozen=True)
class Study:
    """An experiment: which runs, what follows from their Results, and how it is drawn."""

    name: str
    title: str
    description: str  # one line
    documents: str  # what it reproduces: "AI500 Fig. 5 a, b"
    axes: tuple[Axis, ...]
    points: Callable[[Request], list[Point]]
    analyse: Callable[[Outcomes], Table]
    figures: Callable[[Table], list[Figure]]
    # Of all points, by size; "": of all sizes. A size that is not here is as long as "full".
    settings: Mapping[str, Overrides] = field(default_factory=dict)
    repeats: int = 5
    max_spread: float = 0.10  # of the repeats of a point: larger ones are flagged
    refine: Callable[[Outcomes], list[Point]] = no_more  # more points, once all have run; [] ends the study
    most_more: Callable[[Request], int] = lambda request: 0  # points that `refine` may add in all

    def axis(self, name: str) -> Axis:
        """Returns an axis by name; raises with the names that there are."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        known = ", ".join(f"--{axis.name}" for axis in self.axes) or "none"
        raise ConfigError(f"The study {self.name} has no axis --{name}. Its axes: {known}.")

    def overrides(self, size: str, *, is_smallest: bool = False) -> dict[str, Setting]:
        """Returns the settings of all points at this size of the workload; "smallest" has even shorter runs."""
        smallest = self.settings.get("smallest", {}) if is_smallest else {}
        full = self.settings.get("full", {})
        as_long_as_full = {name: value for name, value in full.items() if name in LENGTHS}
        return {**self.settings.get("", {}), **self.settings.get(size, as_long_as_full), **smallest}


def nested(overrides: Overrides) -> dict[str, Any]:
    """Returns dotted settings as nested tables: `train.epochs` becomes `{"train": {"epochs": …}}`."""
    tables: dict[str, Any] = {}
    for name, value in overrides.items():
        *path, last = name.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return tables


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested tables as dotted settings, the inverse of `nested`."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": each for key, each in flat(value).items()}
        else:
            found[name] = value
    return found
