"""The report page: values of written-out events, plots that parse, nothing from outside, nothing unescaped."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.run_events import as_event, changed
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.report.drawing import Curve, Figure, Plot, draw_svg, thin
from trainmark.report.page import flat_rows, report_page, run_section
from trainmark.report.plots import MAX_LINES, plots_of
from trainmark.spec.config import RunConfig
from trainmark.spec.events import Event
from trainmark.spec.plan import Plan, plan_from_json
from trainmark.spec.result import MemberResult, Metric, Result, unavailable
from trainmark.spec.site import NodeGroup, Site, Slot

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title><script>alert('x')</script> & \"q\" $\\frac$ --> ]]>"
VOID = {"meta", "br", "img", "link", "input", "hr"}


def written_events(rates: bool = True, steps: int = 6) -> list[Event]:
    """Two blocks of steps: rates 0.1, 0.2, …; losses 3, 2.5, …; 20 ms a step but for the first; two evaluations."""
    half = steps // 2
    counts = {"training": 12e6, "operators": {"mm": 3e6, "conv": 9e6}}
    events = [as_event(kind="model_ready", conventions={"exact": counts})]
    for epoch, first in enumerate((0, half)):
        numbers = range(first, first + half)
        block: dict[str, Any] = {"kind": "steps", "first_step": first, "wait_s": [0.0] * half}
        block["step_s"] = [0.09 if n == 0 else 0.02 for n in numbers]
        block["loss"] = [3 - n / 2 for n in numbers]
        if rates:
            block["learning_rate"] = [(n + 1) / 10 for n in numbers]
        events += [as_event(**block), as_event(kind="evaluation", epoch=epoch, quality=0.25 + epoch / 2)]
    return events


def written_config(*settings: str) -> RunConfig:
    """The default run, a few settings of it as stated."""
    stated = ("train.batch_size=10", "train.schedule=cosine", "evaluate.target_quality=0.8", *settings)
    site = Site(name="test", groups=(NodeGroup(prefix="n", slots=(Slot(cores=(0,)),)),))
    return make_plan(resolve_config([parse_setting(text) for text in stated]), site)[0]


def written_plan(members: int = 1, workers: int = 1, idle_slots: int = 0) -> Plan:
    """A plan of an earlier version: it knows nothing of cores."""
    figures = {"members": members, "workers_per_member": workers, "system_scale": members * workers, "lanes": 1}
    return plan_from_json({**figures, "site": "test", "idle_slots": idle_slots, "mapping": []})


def written_result(num_members: int = 1, **changes: Any) -> Result:
    """A Result whose members left one step out as warm-up."""
    speed = Metric(value=500.0, unit="samples/s", better="higher", status="measured", detail={"warmup_steps": [1]})
    values: dict[str, Any] = {
        "run_id": "20261115-090000-image-classification-abcd",
        "state": "complete",
        "started_at": "2026-11-15T09:00:00+00:00",
        "workload": "image-classification",
        "size": "tiny",
        "config": written_config(),
        "plan": written_plan(num_members),
        "machine": {"host": "node7", "cpu": "A CPU", "cores": 2, "accelerators": [{"name": "An Accelerator"}]},
        "software": {"torch": "2.13.0", "environment": {"OMP_NUM_THREADS": "2"}},
        "engine": {"compiler": "none"},
        "metrics": {
            "flops": Metric(
                value=31.4e12,
                unit="FLOP/s",
                better="higher",
                status="derived",
                ci95=(30e12, 33e12),
                n=17,
                convention="exact",
            ),
            "step_time_s": Metric(value=0.02, unit="s", better="lower", status="measured", n=5),
            "ceiling_flops": unavailable("FLOP/s", "higher", "measure.ceiling is false"),
            "of_a_plugin": Metric(value=7.0, unit="frogs", better="higher", status="measured"),
        },
        "members": [
            MemberResult(
                member=m,
                state="finished",
                attempts=1,
                seed=m,
                quality=0.75,
                epochs_done=2,
                metrics={"throughput_samples_per_s": speed},
            )
            for m in range(num_members)
        ],
        "warnings": ["1 worker slot is idle"],
        "provenance": {"code_version": "0.1.0+abc", "config_hash": "feed"},
    }
    return Result(**{**values, **changes})


def page(result: Result, events: dict[int, list[Event]]) -> str:
    return report_page([run_section(result, events, {})])


def drawn(plot: Figure) -> ElementTree.Element:
    assert plot.svg is not None, plot.caption
    return ElementTree.fromstring(plot.svg)


def line_in(plot: Figure, colour: str = "#0072b2") -> list[tuple[float, float]]:
    """The corners of the first line of a colour, in the drawing's units; y grows downwards."""
    for path in drawn(plot).iter(f"{SVG}path"):
        style = path.get("style", "")
        if f"stroke: {colour}" in style and "fill: none" in style and "clip-path" in path.attrib:
            numbers = re.findall(r"[ML] (\S+) (\S+)", path.attrib["d"])
            return [(float(x), float(y)) for x, y in numbers]
    raise AssertionError(f"no line of colour {colour}")


def cells(text: str) -> list[str]:
    return re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", text)


class Structure(HTMLParser):
    """Collects elements and attributes, and checks that every element is closed in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def structure(text: str) -> Structure:
    found = Structure()
    found.feed(text)
    assert found.open == []
    return found


def test_the_page_says_which_run_of_what_when_and_where() -> None:
    text = page(written_result(), {0: written_events()})
    for fact in (
        "20261115-090000-image-classification-abcd",
        "image-classification (tiny)",
        "2026-11-15T09:00:00+00:00",
    ):
        assert fact in text
    assert "node7: A CPU, 2 cores" in text
    assert "An Accelerator" in text
    assert "1 worker slot is idle" in text


def test_a_metric_stands_with_unit_interval_n_and_status_or_with_its_reason() -> None:
    found = cells(page(written_result(), {0: written_events()}))
    row = found.index("FLOPS (Eq. 6)")
    assert found[row + 1 : row + 6] == ["31.4 TFLOP/s", "30 – 33 TFLOP/s", "17", "derived", "exact convention"]
    row = found.index("ceiling (measured)")
    assert found[row + 1 : row + 6] == ["–", "", "", "unavailable", "measure.ceiling is false"]
    row = found.index("of_a_plugin")
    assert found[row + 1] == "7 frogs"


def test_the_whole_configuration_stands_under_the_names_that_set_takes() -> None:
    result = written_result()
    rows = dict(flat_rows(result.config.model_dump(exclude_none=True)))
    expected = {"seed": "1", "train.batch_size": "10", "train.nesterov": "false", "evaluate.target_quality": "0.8"}
    assert expected.items() <= rows.items()
    found = cells(page(result, {0: written_events()}))
    assert rows.items() <= set(pairwise(found))
    assert found[found.index("environment.OMP_NUM_THREADS") + 1] == "2"
    assert "mapping" not in found  # as long as the ensemble is large; it stands in plan.json
    assert found[found.index("compiler") + 1] == "none"
    assert found[found.index("config_hash") + 1] == "feed"


def test_the_learning_rate_is_drawn_step_by_step() -> None:
    plot = plots_of(written_result(), {0: written_events()})[0]
    assert plot.title == "Learning rate"
    assert "Highest 0.6" in plot.caption
    assert "n = 6 steps of 1 member." in plot.caption
    points = np.array(line_in(plot))
    assert len(points) == 6  # a rate that grows by 0.1 a step: a straight line that rises
    assert np.allclose(np.diff(points, axis=0), points[1] - points[0], atol=1e-4)
    assert points[1][0] > points[0][0]
    assert points[1][1] < points[0][1]


def test_a_run_that_recorded_no_learning_rate_says_so_and_keeps_its_other_plots() -> None:
    rate, *others = plots_of(written_result(), {0: written_events(rates=False)})
    assert rate.svg is None
    assert "did not record the learning rate" in rate.caption
    assert all(plot.svg for plot in others)
    assert "did not record the learning rate" in page(written_result(), {0: written_events(rates=False)})


def test_step_times_are_drawn_with_the_steps_that_the_metrics_leave_out_shaded() -> None:
    plot = plots_of(written_result(), {0: written_events()})[2]
    assert "in ms; from 20 ms to 90 ms" in plot.caption
    assert "warm-up, excluded from the metrics (steps per member: 1)" in plot.caption
    assert "median of the steady state, 20 ms" in plot.caption
    xs = [x for x, _ in line_in(plot)]
    shades = [path.attrib["d"] for path in drawn(plot).iter(f"{SVG}path") if "fill: #e8e8e8" in path.get("style", "")]
    assert len(shades) == 1
    corners = [float(x) for x in re.findall(r"[ML] (\S+) \S+", shades[0])]
    step = xs[1] - xs[0]
    assert min(corners) == pytest.approx(xs[0] - step / 2, abs=0.01)
    assert max(corners) == pytest.approx(xs[0] + step / 2, abs=0.01)


def test_a_member_that_has_not_finished_has_no_shade() -> None:
    members = [MemberResult(member=0, state="running", attempts=1, seed=0)]
    assert "warm-up" not in plots_of(written_result(members=members), {0: written_events()})[2].caption


def test_quality_is_drawn_against_its_target() -> None:
    plot = plots_of(written_result(), {0: written_events()})[3]
    assert "best 0.75" in plot.caption
    assert "target quality 0.8" in plot.caption
    (_, first), (_, last) = line_in(plot)
    (_, target), _ = line_in(plot, "#666666")
    # 0.25, 0.75 and 0.8 on one linear axis: the target is a tenth of the first rise above the last quality.
    assert (last - target) / (first - last) == pytest.approx(0.1, abs=1e-3)


def test_operators_are_listed_by_their_share() -> None:
    found = cells(page(written_result(), {0: written_events()}))
    assert found[found.index("conv") + 1 : found.index("conv") + 3] == ["9 MFLOP", "75 %"]
    assert found[found.index("mm") + 1 : found.index("mm") + 3] == ["3 MFLOP", "25 %"]
    assert found.index("conv") < found.index("mm")


def test_operators_are_those_that_were_measured_where_the_run_has_them() -> None:
    flops = written_result().metrics["flops"].model_copy(update={"detail": {"operators": {"exact": {"mm": 5e6}}}})
    found = cells(page(written_result(metrics={"flops": flops}), {0: written_events()}))
    assert found[found.index("mm") + 1 : found.index("mm") + 3] == ["5 MFLOP", "100 %"]
    assert "conv" not in found


def test_losses_that_are_no_numbers_are_left_out_and_counted() -> None:
    events = written_events()
    events[-2] = changed(events[-2], loss=[1.5, 1.0, None])
    plot = plots_of(written_result(), {0: events})[1]
    assert "Omitted steps with a loss that is not finite: 1." in plot.caption
    assert "n = 5 steps" in plot.caption
    assert len(line_in(plot)) == 5


def test_a_long_line_keeps_the_smallest_and_the_largest_of_each_bin() -> None:
    y = np.sin(np.arange(100_000) * 0.7) + np.arange(100_000) * 1e-5
    y[[12_345, 67_890]] = 50.0, -50.0  # single late steps must not vanish
    thinned = thin(Curve("a", np.arange(100_000.0), y), most=1000)
    assert len(thinned.x) <= 1000
    for first in range(0, 100_000, 200):  # 500 bins of 200
        inside = thinned.y[(thinned.x >= first) & (thinned.x < first + 200)]
        assert inside.min() == y[first : first + 200].min()
        assert inside.max() == y[first : first + 200].max()
    assert np.array_equal(thinned.y, y[thinned.x.astype(int)])
    assert (np.diff(thinned.x) > 0).all()


def test_a_line_of_five_thousand_points_is_drawn_whole_and_a_longer_one_says_it_is_thinned() -> None:
    for steps, is_thinned in ((5000, False), (5002, True)):
        plot = plots_of(written_result(), {0: written_events(steps=steps)})[0]
        assert ("of each of 2,500 bins" in plot.caption) == is_thinned
        assert f"n = {steps:,} steps" in plot.caption
        assert (len(line_in(plot)) == steps) != is_thinned
        assert len(line_in(plot)) <= 5000


def test_a_large_ensemble_is_drawn_in_part_and_says_so() -> None:
    count = MAX_LINES + 1
    plot = plots_of(written_result(count), {m: written_events() for m in range(count)})[0]
    assert "n = 390 steps of 65 members" in plot.caption
    assert "Drawn: 33 members" in plot.caption


def test_members_have_a_colour_and_a_name_each() -> None:
    plot = plots_of(written_result(2), {0: written_events(), 1: written_events()})[1]
    texts = [element.text for element in drawn(plot).iter(f"{SVG}text")]
    assert "member 0" in texts
    assert "member 1" in texts
    assert len(line_in(plot, "#d55e00")) == 6


def test_more_members_than_colours_are_a_crowd_without_names() -> None:
    plot = plots_of(written_result(8), {m: written_events() for m in range(8)})[1]
    assert not any("member" in (element.text or "") for element in drawn(plot).iter(f"{SVG}text"))


def test_one_very_long_step_puts_the_times_on_a_logarithmic_axis() -> None:
    events = written_events()
    events[1] = changed(events[1], step_s=[45.0, 0.02, 0.02])  # a compiler at work
    assert "logarithmic" in plots_of(written_result(), {0: events})[2].caption
    assert "logarithmic" not in plots_of(written_result(), {0: written_events()})[2].caption


def test_every_plot_parses_alone_and_has_a_text_for_those_who_cannot_see_it() -> None:
    for plot in plots_of(written_result(), {0: written_events()}):
        svg = drawn(plot)
        assert svg.tag == f"{SVG}svg"
        assert svg.get("role") == "img"
        title = svg.find(f"{SVG}title")
        assert title is not None
        assert title.text == f"{plot.title}. {plot.caption}"


def test_the_page_is_well_formed_and_needs_nothing_from_outside() -> None:
    found = structure(page(written_result(), {0: written_events()}))
    assert found.tags.count("svg") == 4
    assert not {"script", "link", "img", "iframe", "object", "image"} & set(found.tags)
    for name, value in found.attributes:
        if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert value.startswith("#"), (name, value)
        assert "url(" not in value.replace("url(#", "("), value


def test_names_in_the_page_are_unique_even_with_two_runs_alike() -> None:
    one = run_section(written_result(), {0: written_events()}, {})
    two = run_section(written_result(run_id="other"), {0: written_events()}, {})
    found = structure(report_page([one, two]))
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {value[1:] for name, value in found.attributes if name in ("href", "xlink:href")}
    assert {"run-1", "run-2"} <= targets <= set(ids)


def test_the_same_run_gives_the_same_page() -> None:
    assert page(written_result(), {0: written_events()}) == page(written_result(), {0: written_events()})


def test_hostile_strings_stay_text() -> None:
    failed = MemberResult(member=0, state="failed", attempts=1, seed=0, reason=HOSTILE)
    events = written_events()
    counts = {"training": 1.0, "operators": {HOSTILE: 1.0}}
    events[0] = changed(events[0], model=HOSTILE, conventions={"exact": counts})
    result = written_result(
        run_id=HOSTILE,
        workload=HOSTILE,
        size=HOSTILE,
        started_at=HOSTILE,
        machine={"host": HOSTILE, "cpu": HOSTILE, "cores": 1, "accelerators": [{"name": HOSTILE}], HOSTILE: [HOSTILE]},
        software={HOSTILE: {HOSTILE: HOSTILE}},
        engine={HOSTILE: HOSTILE},
        provenance={HOSTILE: HOSTILE},
        warnings=[HOSTILE],
        metrics={HOSTILE: unavailable(HOSTILE, "higher", HOSTILE)},
        members=[failed],
    )
    section = run_section(result, {0: events}, {})
    text = report_page([section, section])
    assert "<script" not in text
    assert "script" not in structure(text).tags
    assert text.count("&lt;script&gt;") > 20
    for plot in section.plots[:4]:
        drawn(plot)
    hostile = Figure(HOSTILE, HOSTILE, ((Plot(HOSTILE, HOSTILE, HOSTILE, ()),),), name=HOSTILE)
    title = ElementTree.fromstring(draw_svg(hostile)).find(f"{SVG}title")
    assert title is not None
    assert title.text == f"{HOSTILE}. {HOSTILE}"


@pytest.mark.parametrize(
    "events", [{}, {0: []}, {0: [as_event(kind="rank_started")]}], ids=["none", "empty", "started"]
)
def test_a_run_that_has_measured_nothing_gives_a_page_that_says_its_state(events: dict[int, list[Event]]) -> None:
    waiting = MemberResult(member=0, state="waiting", attempts=0, seed=0)
    metrics = {"flops": unavailable("FLOP/s", "higher", "no member has finished")}
    text = page(written_result(state="unfinished", members=[waiting], metrics=metrics), events)
    assert '<span class="state">unfinished</span>' in text
    assert "waiting" in cells(text)
    assert text.count("Not shown: ") == 6
    assert "<svg" not in text
    structure(text)


def test_the_curves_of_a_run_hold_what_its_members_recorded() -> None:
    rate, loss, step_time, quality = plots_of(written_result(2), {0: written_events(), 1: written_events()})
    (plot,) = rate.rows[0]
    assert plot is not None
    assert [curve.label for curve in plot.curves] == ["member 0", "member 1"]
    assert np.allclose(plot.curves[0].y, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    (plot,) = loss.rows[0]
    assert plot is not None
    assert plot.curves[1].y.tolist() == [3, 2.5, 2, 1.5, 1, 0.5]
    (plot,) = step_time.rows[0]
    assert plot is not None
    assert np.allclose(plot.curves[0].y, [90, 20, 20, 20, 20, 20])
    assert (plot.y_label, plot.references, plot.shaded) == (
        "step time in ms",
        (("median in steady state", 20.0, None),),
        ((-0.5, 0.5),),
    )
    (plot,) = quality.rows[0]
    assert plot is not None
    assert (plot.x_label, plot.curves[0].x.tolist(), plot.curves[0].y.tolist()) == (
        "epochs trained",
        [1, 2],
        [0.25, 0.75],
    )
    assert plot.references == (("target", 0.8, None),)
