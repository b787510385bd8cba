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
    rows = [line.split("  ")[0] for line in shown.splitlines()[2:]]
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


@pytest.mark.parametrize("shapes", [["3x8"], ["1x32x32"], ["3x32x32", "4x32x32"]])
def test_a_shape_that_the_model_cannot_take_is_one_line(shapes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="cannot take an input of") as error:
        flops("resnet-tiny", shapes=shapes)
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""
