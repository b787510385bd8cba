"""`trainmark flops` shows operators, layers and image sizes, to people and as JSON."""

import json

import pytest

from trainmark.cli.flops import flops
from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import WORKLOADS
from trainmark.workloads.flops.count import count_model


@pytest.fixture(autouse=True)
def unlimited_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


# One image of 3 × 32 × 32 through the tiny model: see test_flops.py.
FIRST = 2 * 9 * 3 * 16 * 256


def test_one_input_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    flops("resnet-tiny", shapes=["3x64x64"], json=True)
    document = json.loads(capsys.readouterr().out)
    assert document == count_model("resnet-tiny", {}, (3, 64, 64))
    assert document["layers"][0]["forward"] == 4 * FIRST


def test_several_inputs_are_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    flops("resnet-tiny", shapes=["3x32x32", "3x64x128"], json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["model"] == "resnet-tiny"
    assert [counts["input_shape"] for counts in document["inputs"]] == [[3, 32, 32], [3, 64, 128]]
    assert [counts["layers"][0]["forward"] for counts in document["inputs"]] == [FIRST, 8 * FIRST]


def test_several_inputs_are_a_table_with_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    flops("resnet-tiny", shapes=["3x32x32", "3x64x128"])
    shown = capsys.readouterr().out
    rows = [line.split("  ")[0] for line in shown.splitlines()[2:4]]
    assert rows == ["3 × 32 × 32", "3 × 64 × 128"]
    assert "8.192 k" in shown  # pixels


def test_people_see_totals_and_operators_and_layers_when_they_ask(capsys: pytest.CaptureFixture[str]) -> None:
    flops("resnet-tiny")
    shown = capsys.readouterr().out
    for text in ("78,042 parameters", "kept for the backward pass", "FLOP/byte", "convolution, weight gradient", "3 ×"):
        assert text in shown
    assert "Residual" not in shown
    flops("resnet-tiny", layers=True)
    shown = capsys.readouterr().out
    assert "2 Residual" in shown and "16 × 16 × 16" in shown


@pytest.mark.parametrize(
    ("workload", "size", "shape"),
    [
        ("image-classification", "tiny", (3, 32, 32)),
        ("image-classification", "cifar10", (3, 32, 32)),
        ("image-classification", "pacs", (3, 224, 224)),
        ("extreme-weather", "tiny", (16, 64, 96)),
    ],
)
def test_a_workload_is_counted_with_its_own_settings_and_shape(
    workload: str, size: str, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    flops(workload, size, json=True)
    record = WORKLOADS.load(workload).sizes[size]
    assert json.loads(capsys.readouterr().out) == count_model(record.model, record.model_settings, shape)


def test_a_detectors_table_by_size_says_what_each_proposal_adds(capsys: pytest.CaptureFixture[str]) -> None:
    flops("extreme-weather", shapes=["16x64x96", "16x128x192"])
    # Two hidden layers of 128 on 64 × 7 × 7 values, five classes with a box each: 2 · (3136 · 128 + 128² + 128 · 25).
    each = 2 * (3136 * 128 + 128 * 128 + 128 * 25)
    assert each == 841_984
    assert "Each adds 842 kFLOP forward and 2.526 MFLOP in training (exact)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "shapes", "says"),
    [
        ("resnet-tiny", ["1x32x32"], "'resnet-tiny' cannot take an input of 1 × 32 × 32: "),
        ("resnet-tiny", ["3x32x32", "4x32x32"], "'resnet-tiny' cannot take an input of 4 × 32 × 32: "),
        ("resnet-tiny", ["3x8"], "The input of resnet-tiny has 3 dimensions, such as 3 × 32 × 32, but 3 × 8 has 2."),
        ("alexnet", ["3x64x64", "3x62x80"], "does not support 3 × 62 × 80: it needs images of at least 63 × 63."),
        ("resnet-tiny", ["3x32x²"], "'3x32x²' is not an input shape."),
    ],
)
def test_a_shape_that_the_model_cannot_take_is_named_in_one_line(
    model: str, shapes: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        flops(model, shapes=shapes)
    assert says in str(error.value) and "\n" not in str(error.value)
    assert capsys.readouterr().out == ""
