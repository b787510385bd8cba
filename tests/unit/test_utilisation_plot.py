"""Utilisation over time as it is drawn: values of written-out samples, small multiples, what is left out."""

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.run_events import as_event, changed
from tests.unit.test_report_page import HOSTILE, SVG, drawn, line_in, structure, written_events, written_result
from tests.unit.written_events import written_sample
from trainmark.report.drawing import Figure
from trainmark.report.node_series import MAX_POINTS
from trainmark.report.page import report_page, run_section
from trainmark.report.utilisation import utilisation_plot
from trainmark.spec.events import Event
from trainmark.spec.result import Metric

BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
START = as_event(kind="usage_start", node="node1")


def series(busy: list[float], **fields: Any) -> list[Event]:
    """A sample a second from 1001 on, of a node with one core."""
    samples = [
        written_sample(1001.0 + i, share, **{"processes": {"cpu_s": share}, **fields}) for i, share in enumerate(busy)
    ]
    return [changed(START, wall_s=1000.0), *samples]


def texts(plot: Figure) -> list[str]:
    return [element.text or "" for element in drawn(plot).iter(f"{SVG}text")]


def shades(plot: Figure) -> list[tuple[float, float]]:
    """Left and right ends of the shaded areas."""
    paths = [path.attrib["d"] for path in drawn(plot).iter(f"{SVG}path") if "fill: #e8e8e8" in path.get("style", "")]
    corners = [[float(x) for x in re.findall(r"[ML] (\S+) \S+", path)] for path in paths]
    return sorted({(min(xs), max(xs)) for xs in corners})


def test_a_staircase_shows_each_sample_over_its_time() -> None:
    plot = utilisation_plot(written_result(), {0: [series([0.25, 0.75, 0.5])]}, {})
    points = np.array(line_in(plot, BLUE))
    # From the begin of the first to the end of the last: three equal stretches at 25, 75 and 50 %.
    xs = sorted(set(points[:, 0]))
    assert np.allclose(np.diff(xs), xs[1] - xs[0], atol=1e-3)
    assert len(xs) == 4
    heights = [set(points[points[:, 0] == x][:, 1]) for x in xs]
    (first,), (last,) = heights[0], heights[3]
    (middle,) = heights[1] - {first}
    assert (first - last) / (first - middle) == pytest.approx(0.5, abs=1e-3)
    assert "n = 3 samples of 1 node." in plot.caption


def test_the_network_is_drawn_in_megabytes_a_second_of_all_interfaces() -> None:
    moved = {"eth0": {"received": 30_000_000, "sent": 10_000_000}, "mlx5_0/1": {"received": 0, "sent": 60_000_000}}
    plot = utilisation_plot(written_result(), {0: [series([0.5, 0.5], network=moved)]}, {})
    assert "MB/s" in texts(plot)
    assert "100" in texts(plot)  # 100 MB in one second is the top of the axis
    assert len({y for _, y in line_in(plot, GREEN)}) == 1


def test_accelerators_have_a_line_of_their_own() -> None:
    gpus = [{"utilisation": share, "memory_bytes": 0, "power_w": None} for share in (0.9, 0.7)]
    plot = utilisation_plot(written_result(), {0: [series([0.25, 0.5], accelerators=gpus)]}, {})
    assert "GPU" in texts(plot)
    low, high = line_in(plot, BLUE)[0][1], line_in(plot, BLUE)[-1][1]
    gpu = line_in(plot, VERMILION)[0][1]
    assert (low - gpu) / (low - high) == pytest.approx((80 - 25) / (50 - 25), abs=1e-2)  # their mean is 80 %
    assert "GPU" not in texts(utilisation_plot(written_result(), {0: [series([0.5] * 3)]}, {}))


def test_what_lies_outside_of_epochs_is_shaded() -> None:
    epochs: list[Event] = [
        as_event(kind="epoch_start", epoch=0, wall_s=1001.0),
        as_event(kind="epoch_stop", epoch=0, epoch_s=1.0),
        as_event(kind="epoch_start", epoch=1, wall_s=1003.0),  # under way until the end
    ]
    plot = utilisation_plot(written_result(), {0: [series([0.5] * 4)]}, {0: epochs})
    left, right = line_in(plot, BLUE)[0][0], line_in(plot, BLUE)[-1][0]
    second = (right - left) / 4
    assert shades(plot) == [
        pytest.approx((left, left + second), abs=0.01),
        pytest.approx((left + 2 * second, left + 3 * second), abs=0.01),
    ]


@pytest.mark.parametrize(("members", "panels"), [(1, 1), (2, 2), (3, 3), (8, 8), (20, 7)])
def test_each_member_has_a_panel_up_to_eight(members: int, panels: int) -> None:
    plot = utilisation_plot(written_result(members), {m: [series([0.5] * 3)] for m in range(members)}, {})
    assert len([text for text in texts(plot) if text.startswith("member ")]) == panels
    assert (f"Drawn: {panels} of them" in plot.caption) == (panels < members)


def test_the_nodes_of_a_member_have_a_panel_and_a_name_each() -> None:
    other = [changed(START, node="node2"), *series([0.5])[1:]]
    plot = utilisation_plot(written_result(), {0: [series([0.5]), other]}, {})
    assert {"member 0, node1", "member 0, node2"} <= set(texts(plot))


def test_a_long_series_is_drawn_as_means_of_neighbours_and_says_so() -> None:
    busy = [0.4, 0.8] * MAX_POINTS  # twice as many as are drawn
    plot = utilisation_plot(written_result(), {0: [series(busy)]}, {})
    assert "averaged over adjacent samples" in plot.caption
    assert "time in min" in texts(plot)
    assert len({round(y, 3) for _, y in line_in(plot, BLUE)}) == 1  # all at 60 %


def test_what_no_sample_tells_is_not_drawn() -> None:
    untold = series([0.5] * 3, cpu=None, network=None, loopback_bytes=None)
    labels = texts(utilisation_plot(written_result(), {0: [untold]}, {}))
    assert "CPU, the member's own" in labels
    assert not {"CPU, anybody's work", "network, received + sent", "loopback"} & set(labels)


@pytest.mark.parametrize("usage", [{}, {0: []}, {0: [[]]}, {0: [[START]]}], ids=["none", "no node", "no file", "begun"])
def test_without_samples_the_page_says_so(usage: dict[int, list[list[Event]]]) -> None:
    plot = utilisation_plot(written_result(), usage, {})
    assert plot.svg is None
    assert "measure.usage_seconds=0 disables it" in plot.caption


def test_the_page_holds_the_figure_with_its_means() -> None:
    detail = {"own": 0.975, "total": 0.99, "nodes": []}
    mean = Metric(value=0.975, unit="share", better="higher", status="measured", detail=detail)
    result = written_result(metrics={"cpu_utilisation": mean})
    text = report_page([run_section(result, {0: written_events()}, {0: [series([0.5] * 3)]})])
    assert structure(text).tags.count("svg") == 5
    assert "Mean while training: CPU 97.5 % (all processes 99 %)." in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


def test_a_hostile_name_of_a_node_stays_text() -> None:
    named = [changed(START, node=HOSTILE), *series([0.5])[1:]]
    plot = utilisation_plot(written_result(), {0: [named, named]}, {})
    assert f"member 0, {HOSTILE}" in texts(plot)
