"""What is drawn is what the curves hold: points, intervals, references, scales; as SVG and as PDF."""

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Annotation

from trainmark.report.bars import Bars, draw_bars
from trainmark.report.drawing import (
    GREY,
    PALETTE,
    Curve,
    Figure,
    Plot,
    Reference,
    draw_on,
    draw_pdf,
    draw_svg,
    thin,
)

WORKERS = np.array([1.0, 2.0, 4.0])
LOW, HIGH = np.array([9.0, 18.0, 33.0]), np.array([11.0, 20.0, 40.0])
MEASURED = Curve("measured", WORKERS, np.array([10.0, 19.0, 36.0]), LOW, HIGH)
IDEAL = Reference("ideal", 10 * WORKERS, WORKERS)


def scaling(**changes: Any) -> Plot:
    values: dict[str, Any] = {
        "title": "",
        "x_label": "workers",
        "y_label": "throughput in samples/s",
        "curves": (MEASURED,),
        "references": (IDEAL, Reference("needed", 25.0)),
        "x_scale": "log2",
    }
    return Plot(**{**values, **changes})


def axes_of(*plots: Plot) -> list[Axes]:
    canvas = Canvas(layout="constrained")
    draw_on(canvas, Figure("Scaling", "", tuple((plot,) for plot in plots), (2.0,) * len(plots)))
    canvas.draw_without_rendering()
    return canvas.axes


def test_points_and_their_intervals_are_drawn_where_they_are() -> None:
    (axes,) = axes_of(scaling())
    assert axes.lines[0].get_xydata().tolist() == [[1, 10], [2, 19], [4, 36]]
    corners = axes.collections[0].get_paths()[0].vertices.tolist()
    for point in ([1, 9], [2, 18], [4, 33], [1, 11], [2, 20], [4, 40]):
        assert point in corners
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("workers", "throughput in samples/s")


def test_a_curve_without_an_interval_has_no_band() -> None:
    (axes,) = axes_of(scaling(curves=(Curve("measured", WORKERS, WORKERS),)))
    assert list(axes.collections) == []


def test_an_ideal_curve_and_a_level_are_dashed_grey_and_named() -> None:
    (axes,) = axes_of(scaling())
    _, ideal, level = axes.lines
    assert ideal.get_xydata().tolist() == [[1, 10], [2, 20], [4, 40]]
    assert list(level.get_ydata()) == [25.0, 25.0]
    assert [(line.get_color(), line.get_linestyle()) for line in (ideal, level)] == [(GREY, "--"), (GREY, ":")]
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["measured", "ideal", "needed"]


def test_on_a_logarithmic_scale_of_workers_each_measured_number_is_a_tick() -> None:
    (axes,) = axes_of(scaling())
    assert axes.get_xscale() == "log"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4"]


def test_plots_that_share_their_x_have_the_ticks_of_all_also_if_the_last_is_empty() -> None:
    far = Curve("far", np.array([8.0]), np.array([1.0]))
    axes = axes_of(scaling(), scaling(curves=(far,)), scaling(curves=(), references=()))
    for each in axes:
        assert [tick.get_text() for tick in each.get_xticklabels()] == ["1", "2", "4", "8"]


def test_flops_have_prefixes_on_the_axis() -> None:
    fast = Curve("fast", WORKERS, np.array([20e9, 40e9, 80e9]))
    text = draw_svg(Figure("F", "Caption.", ((scaling(curves=(fast,), references=(), y_label="FLOP/s"),),)))
    assert ">40 G<" in text and "1e10" not in text


def test_a_logarithmic_scale_has_plain_numbers() -> None:
    wide = Curve("wide", WORKERS, np.array([10.0, 300.0, 2000.0]))
    text = draw_svg(Figure("F", "Caption.", ((scaling(curves=(wide,), references=(), is_log_y=True),),)))
    assert ">1000<" in text and ">100<" in text
    assert "mathdefault" not in text


def of_labels(*labels: str, **changes: Any) -> Plot:
    curves = tuple(Curve(label, WORKERS, WORKERS + n) for n, label in enumerate(labels))
    return scaling(curves=curves, references=(), **changes)


def names_in_legend(axes: Axes) -> list[str]:
    return [text.get_text() for legend in axes.figure.legends for text in legend.get_texts()]


def test_curves_have_the_colours_that_all_can_tell_apart_and_more_have_other_dashes_and_markers() -> None:
    (few,) = axes_of(of_labels(*"abcdefg"))
    assert [line.get_color() for line in few.lines] == list(PALETTE)
    assert {(line.get_linestyle(), line.get_marker()) for line in few.lines} == {("-", "o")}
    (many,) = axes_of(of_labels(*"abcdefghi"))
    assert [line.get_color() for line in many.lines] == [*PALETTE, *PALETTE[:2]]
    assert [(line.get_linestyle(), line.get_marker()) for line in many.lines[6:]] == [
        ("-", "o"),
        ("--", "s"),
        ("--", "s"),
    ]
    assert names_in_legend(many) == list("abcdefghi")


def test_curves_of_one_label_look_alike_and_stand_in_the_legend_once_however_many_they_are() -> None:
    (axes,) = axes_of(of_labels(*"aabbccddee"))
    assert [line.get_color() for line in axes.lines] == [colour for colour in PALETTE[:5] for _ in range(2)]
    assert names_in_legend(axes) == list("abcde")


def test_a_label_has_one_look_in_all_plots_of_a_figure() -> None:
    upper, lower = axes_of(of_labels("fp32", "bf16"), of_labels("bf16"))
    assert upper.lines[1].get_color() == lower.lines[0].get_color() == PALETTE[1]


@pytest.mark.parametrize(
    "crowd",
    [
        of_labels(*"abcdefgh", is_crowd=True),
        of_labels(*(str(n) for n in range(29))),  # seven colours × four dashes are 28
        scaling(curves=tuple(Curve(str(n), WORKERS, WORKERS, shape="stairs") for n in range(8)), references=()),
    ],
    ids=["meant", "too many", "stairs"],
)
def test_a_crowd_shares_one_colour_and_has_no_legend(crowd: Plot) -> None:
    (axes,) = axes_of(crowd)
    assert {line.get_color() for line in axes.lines} == {PALETTE[0]}
    assert names_in_legend(axes) == []


def test_stairs_hold_a_value_up_to_its_x_and_areas_lie_between_their_edges() -> None:
    edges, values = np.array([0.0, 1.0, 2.0]), np.array([5.0, 5.0, 7.0])
    stairs = Curve("busy", edges, values, shape="stairs", colour="#112233")
    area = Curve("waits", edges, values, np.zeros(3), values, shape="area", colour="#445566")
    (axes,) = axes_of(scaling(curves=(stairs, area), references=(), x_scale="real"))
    assert (axes.lines[0].get_drawstyle(), axes.lines[0].get_color()) == ("steps-pre", "#112233")
    assert len(axes.lines) == 1
    assert to_hex(axes.collections[0].get_facecolor()[0]) == "#445566"
    corners = axes.collections[0].get_paths()[0].vertices.tolist()
    assert [1, 7] in corners  # the second value holds from 1 on
    assert [1, 5] in corners


def test_plots_one_above_another_share_their_x_and_the_lowest_has_its_label() -> None:
    upper, lower = axes_of(
        scaling(x_label="", x_scale="real", x_range=(0, 8)), scaling(x_scale="real", y_range=(0, 50))
    )
    assert upper.get_xlim() == lower.get_xlim() == (0, 8)
    assert lower.get_ylim() == (0, 50)
    assert not any(label.get_visible() and label.get_text() for label in upper.get_xticklabels())


def test_a_figure_is_the_same_svg_and_pdf_each_time() -> None:
    figure = Figure("Scaling", "Throughput by workers.", ((scaling(),),), name="a")
    assert draw_svg(figure) == draw_svg(figure) == figure.svg
    assert ElementTree.fromstring(draw_svg(figure)).get("role") == "img"
    pdf = draw_pdf(figure)
    assert pdf == draw_pdf(figure)
    assert pdf.startswith(b"%PDF-")
    assert b"Scaling. Throughput by workers." in pdf


def test_a_figure_without_plots_has_no_drawing() -> None:
    assert Figure("Scaling", "Not shown: no run has ended.").svg is None


@pytest.mark.parametrize("most", [10, 100])
def test_a_thinned_curve_keeps_label_and_interval(most: int) -> None:
    x = np.arange(50.0)
    thinned = thin(Curve("a", x, np.sin(x), np.sin(x) - 1, np.sin(x) + 2), most)
    assert thinned.label == "a"
    assert len(thinned.x) <= most
    assert thinned.low is not None
    assert thinned.high is not None
    assert np.allclose(thinned.low, thinned.y - 1)
    assert np.allclose(thinned.high, thinned.y + 2)


def test_a_bar_of_a_single_run_has_no_error_bar_and_its_number_stays() -> None:
    nan = float("nan")
    one = Bars("a", ("x", "y"), np.array([2.0, 3.0]), np.array([nan, 2.5]), np.array([nan, 3.5]))
    canvas = Canvas()
    axes = canvas.subplots()
    draw_bars(axes, (one,))
    (errors,) = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    assert [segment[:, 1].tolist() for segment in errors.lines[2][0].get_segments()] == [[2.5, 3.5]]
    assert [text.get_text() for text in axes.texts] == ["2", "3"]
    assert [text.xy[1] for text in axes.texts if isinstance(text, Annotation)] == [2.0, 3.5]
