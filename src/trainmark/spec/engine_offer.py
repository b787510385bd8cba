"""EngineOffer: what an engine can train with, and how its own settings are planned; read without its framework."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from trainmark.spec.config import RunChoices, RunConfig, TrainChoices
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import ENGINES
from trainmark.spec.site import Site

Fill = Callable[[RunChoices, int, Site], dict[str, Any]]
Refuse = Callable[[RunConfig, int, Site], Iterable[str]]


def _fill_nothing(choices: RunChoices, workers: int, site: Site) -> dict[str, Any]:
    return {}


def _refuse_nothing(config: RunConfig, workers: int, site: Site) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class EngineOffer:
    """One engine's table: names that it knows, the nearest to a default first. Schedules are every engine's."""

    implementation: str  # "module:attribute" of the engine itself, loaded by the ranks alone
    packages: tuple[str, ...]  # distributions whose versions a Result states
    tasks: Collection[str]
    devices: Collection[Literal["cpu", "cuda"]]
    optimizers: Collection[str]
    precisions: Collection[str] = ("fp32",)
    parallel: Collection[str] = ("data",)
    communication: Collection[str] = ("allreduce",)
    communication_precisions: Collection[str] = ("fp32",)
    section: str | None = None  # of [train], with settings that are this engine's alone
    # Its section with nothing open, as {section: values}; the precision is chosen by then.
    fill: Fill = _fill_nothing
    # Why it cannot train a config of what it offers, each reason with the nearest valid choice.
    refusals: Refuse = _refuse_nothing

    def names(self) -> dict[str, Collection[str]]:
        """What may be chosen, by the setting of [train] that chooses it."""
        return {
            "optimizer": self.optimizers,
            "precision": self.precisions,
            "parallel": self.parallel,
            "communication": self.communication,
            "communication_precision": self.communication_precisions,
        }


def find_engine(name: str) -> EngineOffer:
    """What an engine offers, by its name or by the "module:attribute" of a plug-in's."""
    offer = ENGINES.load(name)
    if not isinstance(offer, EngineOffer):
        raise ConfigError(
            f"The engine '{name}' is a {type(offer).__name__}, but an EngineOffer is needed (docs/extending.md). "
            f"Known engines: {', '.join(ENGINES)}."
        )
    return offer


def differing(train: TrainChoices, needed: Mapping[str, str | bool]) -> Iterator[tuple[str, str, str]]:
    """Key, choice and needed choice of each setting that is not as needed, written as --set takes them."""
    for key, only in needed.items():
        chosen = attrgetter(key)(train)
        if chosen != only:
            yield key, str(chosen).lower(), str(only).lower()
