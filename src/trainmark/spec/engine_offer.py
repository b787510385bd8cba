"""EngineOffer: what an engine supports and how its own settings are planned; readable without its framework."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from trainmark.spec.config import RunChoices, RunConfig, TrainChoices
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import ENGINES
from trainmark.spec.site import Site

OPTIONAL_SETTINGS = ("train.batch_norm_momentum", "launch.interop_threads")  # which an engine may lack

Fill = Callable[[RunChoices, int, Site], dict[str, Any]]
Refuse = Callable[[RunConfig, int, Site], Iterable[str]]


def _fill_nothing(choices: RunChoices, workers: int, site: Site) -> dict[str, Any]:
    return {}


def _refuse_nothing(config: RunConfig, workers: int, site: Site) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class EngineOffer:
    """What one engine supports, preferred names first; schedules are available in every engine."""

    implementation: str  # "module:attribute" of the engine itself, loaded by the ranks only
    packages: tuple[str, ...]  # distributions whose versions are recorded in the Result
    tasks: Collection[str]
    devices: Collection[Literal["cpu", "cuda"]]
    optimizers: Collection[str]
    precisions: Collection[str] = ("fp32",)
    parallel: Collection[str] = ("data",)
    communication: Collection[str] = ("allreduce",)
    communication_precisions: Collection[str] = ("fp32",)
    optional_settings: Collection[str] = ()  # those of OPTIONAL_SETTINGS that it has
    variable_shapes: bool = False  # images of unlike height and width in a batch (`passes` of Engine.feed)
    section: str | None = None  # of [train], with engine-specific settings
    # Returns its section fully resolved, as {section: values}; called after the precision is chosen.
    fill: Fill = _fill_nothing
    # Yields why a config of supported parts still cannot be trained, each with the nearest valid choice.
    refusals: Refuse = _refuse_nothing

    def names(self) -> dict[str, Collection[str]]:
        """Returns the supported names by the setting of [train] that selects them."""
        return {
            "optimizer": self.optimizers,
            "precision": self.precisions,
            "parallel": self.parallel,
            "communication": self.communication,
            "communication_precision": self.communication_precisions,
        }


def find_engine(name: str) -> EngineOffer:
    """Returns an engine's offer by registry name or by a plug-in's "module:attribute"."""
    offer = ENGINES.load(name)
    if not isinstance(offer, EngineOffer):
        raise ConfigError(
            f"The engine '{name}' is a {type(offer).__name__}, not an EngineOffer (docs/extending.md). "
            f"Known engines: {', '.join(ENGINES)}."
        )
    return offer


def differing(train: TrainChoices, needed: Mapping[str, str | bool]) -> Iterator[tuple[str, str, str]]:
    """Yields key, choice and required choice of each setting that differs, formatted as for --set."""
    for key, only in needed.items():
        chosen = attrgetter(key)(train)
        if chosen != only:
            yield key, str(chosen).lower(), str(only).lower()
