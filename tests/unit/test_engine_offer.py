"""What each engine offers is known without its framework, and the plan refuses the rest with what can be chosen."""

import subprocess
import sys
from dataclasses import replace

import pytest

from trainmark.machine.software import describe_software
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import RunConfig
from trainmark.spec.engine_offer import EngineOffer
from trainmark.spec.errors import ConfigError, PlanError, UnknownNameError
from trainmark.spec.registries import ENGINES, MODELS
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.workloads.models import FASTER_RCNN, RESNET_TINY

CPUS = Site(name="cpus", groups=(NodeGroup(slots=tuple(Slot(cores=(i,)) for i in range(4))),))
GPUS = Site(name="gpus", groups=(NodeGroup(slots=(Slot(cores=(0,), accelerator=0),)),))

ABACUS = EngineOffer(
    implementation="abacus:Engine",
    packages=("numpy",),
    tasks=("classification",),
    devices=("cpu",),
    optimizers=("sgd", "adam", "by-hand"),
    refusals=lambda config, workers, site: ["The abacus is broken."] if config.seed == 13 else [],
)
TINY, DETECTOR = (
    replace(card, builders={**card.builders, "abacus": "abacus:build"}) for card in (RESNET_TINY, FASTER_RCNN)
)
THEIRS = replace(RESNET_TINY, builders={f"{__name__}:ABACUS": "abacus:build"})


@pytest.fixture(autouse=True)
def abacus(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that a plug-in would bring, beside our own, with builders of two models."""
    monkeypatch.setattr(ENGINES, "_all", {**ENGINES, "abacus": f"{__name__}:ABACUS"})
    own = {"resnet-tiny": f"{__name__}:TINY", "faster-rcnn": f"{__name__}:DETECTOR"}
    monkeypatch.setattr(MODELS, "_all", {**MODELS, **own})


def planned(site: Site, workers: int, *settings: str) -> RunConfig:
    texts = ("ensemble.members=1", f"ensemble.workers={workers}", *settings)
    return make_plan(resolve_config([parse_setting(text) for text in texts]), site)[0]


@pytest.mark.parametrize("name", list(ENGINES))
def test_an_offer_is_read_without_any_framework(name: str) -> None:
    check = (
        "import sys\n"
        "from trainmark.spec.registries import ENGINES\n"
        f"offer = ENGINES.load('{name}')\n"
        "assert all(list(names) for names in offer.names().values())\n"
        "print([each for each in ('torch', 'jax', 'tensorflow', 'mindspore') if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", list(ENGINES))
def test_an_offer_says_where_the_engine_is_and_what_its_versions_are_taken_from(name: str) -> None:
    offer = ENGINES.load(name)
    module, _, attribute = offer.implementation.partition(":")
    assert module.startswith("trainmark.train.") and attribute.isidentifier()
    assert not describe_software(name)[offer.packages[0]].startswith("unavailable")
    assert ENGINES.describe(name).endswith(".")


REFUSED = [
    (
        CPUS,
        1,
        "train.optimizer=adamw",
        "not support train.optimizer=adamw",
        "optimizer=adam, or --set train.engine=torch.",
    ),
    (CPUS, 1, "train.optimizer=lars", "not support train.optimizer=lars", "or --set train.engine=torch."),
    (CPUS, 1, "train.precision=bf16-mixed", "not support train.precision=bf16-mixed", "precision=fp32, or"),
    (
        CPUS,
        2,
        "train.parallel=gpipe",
        "not support train.parallel=gpipe",
        "parallel=data, or --set train.engine=torch.",
    ),
    (CPUS, 2, "train.communication=ring", "not support train.communication=ring", "communication=allreduce, or"),
    (CPUS, 2, "train.communication_precision=int8", "communication_precision=int8", "communication_precision=fp32, or"),
    (CPUS, 1, "model=resnet18", "has no model resnet18", "model=faster-rcnn or resnet-tiny, or --set train.engine="),
    (
        CPUS,
        1,
        "workload=extreme-weather",
        "does not train detection",
        "a workload of classification, or --set train.eng",
    ),
    (
        GPUS,
        1,
        "",
        "does not train on accelerators, which site 'gpus' has",
        "another --site, or --set train.engine=torch.",
    ),
    (CPUS, 1, "train.torch.recompute=true", "train.torch.recompute is a setting of the engine torch", "engine=torch."),
    (CPUS, 1, "train.torch.compiler=inductor", "train.torch.compiler is a setting of the engine torch", "Remove it"),
    (
        CPUS,
        1,
        "train.batch_norm_momentum=0.01",
        "The engine abacus does not support train.batch_norm_momentum.",
        "Remove it, or --set train.engine=torch.",
    ),
    (
        CPUS,
        1,
        "launch.interop_threads=2",
        "The engine abacus does not support launch.interop_threads.",
        "Remove it, or --set train.engine=torch.",
    ),
    (CPUS, 1, "seed=13", "The abacus is broken", "."),
]


@pytest.mark.parametrize(("site", "workers", "settings", "reason", "choice"), REFUSED)
def test_what_an_engine_does_not_offer_is_refused_with_the_nearest_valid_choice(
    site: Site, workers: int, settings: str, reason: str, choice: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(site, workers, "train.engine=abacus", *settings.split())
    assert reason in str(error.value) and choice in str(error.value)


def test_what_an_engine_offers_is_planned_with_nothing_open() -> None:
    config = planned(CPUS, 2, "train.engine=abacus", "train.optimizer=by-hand")
    assert (config.train.engine, config.train.precision, config.train.optimizer) == ("abacus", "fp32", "by-hand")
    assert config.train.torch.compiler == "none"


def test_inter_op_threads_are_planned_for_an_engine_that_has_them_and_unset_otherwise() -> None:
    assert planned(CPUS, 1, "launch.interop_threads=2").launch.interop_threads == 2
    assert planned(CPUS, 1).launch.interop_threads is None
    assert planned(CPUS, 1, "train.engine=abacus").launch.interop_threads is None


def test_an_optimizer_that_no_engine_at_hand_has_is_unknown() -> None:
    with pytest.raises(UnknownNameError, match=r"There is no optimizer 'by-hand'"):
        planned(CPUS, 1, "train.optimizer=by-hand")


def test_a_plug_ins_own_code_is_passed_through() -> None:
    config = planned(
        CPUS, 1, f"train.engine={__name__}:ABACUS", f"model={__name__}:THEIRS", "train.optimizer=their.package:shampoo"
    )
    assert config.train.optimizer == "their.package:shampoo"


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"There is no engine 'tourch'\. Did you mean 'torch'\?"):
        planned(CPUS, 1, "train.engine=tourch")
    with pytest.raises(ConfigError, match=r"is a Site, not an EngineOffer"):
        planned(CPUS, 1, f"train.engine={__name__}:CPUS")
