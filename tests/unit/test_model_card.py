"""A card answers what planning asks of a model, and builds it for an engine; no framework is loaded before that."""

import subprocess
import sys

import pytest

from trainmark.spec.errors import ConfigError, PlanError, UnknownNameError
from trainmark.spec.model_card import ModelCard
from trainmark.workloads.find import find_card

CARD = ModelCard(
    name="narrow",
    description="A model of which only the card exists.",
    input_shape=(3, 64, 64),
    settings={"num_classes": 10, "width": 8},
    smallest_side=32,
    strided_1x1_input="width",
    builders={"plain": "builtins:dict", "lost": "no_such_module:build"},
)


def test_an_engines_builder_gets_the_settings() -> None:
    assert CARD.build("plain", {"width": 3}) == {"width": 3}


def test_an_engine_without_a_builder_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(
        PlanError, match=r"^The engine 'jax' has no builder for narrow; available: plain, lost\. Choose"
    ):
        CARD.build("jax", {})


def test_a_builder_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"^The lost builder of 'narrow' points at no_such_module:build, which"):
        CARD.build("lost", {})


def test_a_setting_has_the_chosen_value_or_its_default() -> None:
    assert CARD.value_of("width", {"width": 4}) == 4
    assert CARD.value_of("width", {}) == 8
    assert CARD.value_of("depth", {}) is None


@pytest.mark.parametrize(
    ("shape", "is_too_small"), [((3, 32, 32), False), ((3, 31, 64), True), ((3, 64, 31), True), ((12,), False)]
)
def test_images_below_the_smallest_side_are_too_small(shape: tuple[int, ...], is_too_small: bool) -> None:
    assert CARD.is_too_small(shape) is is_too_small


def test_channels_are_narrow_below_a_block_of_sixteen() -> None:
    assert CARD.narrow_channels({}) == 8
    assert CARD.narrow_channels({"width": 15}) == 15
    assert CARD.narrow_channels({"width": 16}) is None
    assert find_card("resnet18").narrow_channels({}) is None


def test_a_plug_ins_card_is_found_by_module_and_attribute() -> None:
    assert find_card("trainmark.workloads.models:RESNET18") is find_card("resnet18")


def test_a_model_that_is_no_card_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^The model 'math:sqrt' is a builtin_function_or_method, not a ModelCard\."):
        find_card("math:sqrt")


def test_cards_load_no_framework() -> None:
    program = (
        "import sys\n"
        "from trainmark.spec.registries import MODELS\n"
        "from trainmark.workloads.find import find_card\n"
        "assert all(find_card(name).settings for name in MODELS)\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
