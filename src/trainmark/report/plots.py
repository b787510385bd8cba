"""The curves of a run as SVG: learning rate, loss, step time and quality, member by member, each with its caption."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.spec.events import Evaluation, Event, Steps
from trainmark.spec.result import Result
from trainmark.spec.units import show_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 5000  # of one line; a page is some 700 pixels wide
MOST_LINES = 64
MOST_POINTS_OF_ALL = 40_000  # of the lines of a large ensemble together, so that a browser still opens the page

# Okabe and Ito's colours, distinct to the colour-blind; without their yellow, which white paper swallows.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY, SHADE = "#666666", "#e8e8e8"

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, read aloud
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # Verdana is as wide, where the first is not installed
    "font.size": 9,
    "text.parse_math": False,  # a $ is a $
    "path.simplify": False,  # `thin` is the only thinning, and is stated
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
}

Numbers = NDArray[np.float64]
RankEvents = Mapping[int, Sequence[Event]]  # member → the events of its rank 0


class Curve(NamedTuple):
    """One member's line: steps or epochs, and what was recorded there."""

    member: int
    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class Plot:
    """A drawing and its caption; without a drawing, the caption says why there is none."""

    title: str
    caption: str
    svg: str | None = None


def plots_of(result: Result, events: RankEvents) -> list[Plot]:
    """The plots of a run, in the order of the page."""
    return [
        or_reason("Learning rate", lambda: _learning_rate(result, events)),
        or_reason("Loss", lambda: _loss(result, events)),
        or_reason("Step time", lambda: _step_time(result, events)),
        or_reason("Quality", lambda: _quality(result, events)),
    ]


def or_reason(title: str, draw: Callable[[], Plot]) -> Plot:
    """The plot; where events hold what cannot be drawn, why there is none."""
    try:
        return draw()
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        return Plot(title, f"Not shown: it cannot be drawn of these events ({type(error).__name__}: {error}).")


def thin(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most `most` points: the smallest and the largest value of each of `most` / 2 bins of equal length."""
    if len(curve.x) <= most:
        return curve
    edges = np.linspace(0, len(curve.x), most // 2 + 1).astype(int)
    bins = [(start, curve.y[start:stop]) for start, stop in pairwise(edges)]
    kept = np.unique([start + end for start, y in bins for end in (y.argmin(), y.argmax())])
    return Curve(curve.member, curve.x[kept], curve.y[kept])


def _learning_rate(result: Result, events: RankEvents) -> Plot:
    title = "Learning rate"
    curves = _step_curves(events, lambda block: block.learning_rate)
    if not curves and _step_curves(events, lambda block: block.step_s):
        return Plot(title, "Not shown: the events of this run hold no learning rate; a run made now records it.")
    last = {f"{curve.y[-1]:.4g}" for curve in curves}
    caption = f"Highest {_most(curves):.4g}; at the last recorded step {_span(last)}." if curves else ""
    return _lines(result, title, "learning rate", curves, f"Learning rate of each step; equal ones coincide. {caption}")


def _loss(result: Result, events: RankEvents) -> Plot:
    curves = _step_curves(events, lambda block: block.loss)
    recorded = sum(len(block.loss) for of_rank in events.values() for block in _blocks(of_rank))
    caption = "Training loss of each step, over the samples of the first replica (rank 0)."
    if lost := recorded - sum(len(curve.x) for curve in curves):
        caption += f" Left out, as their loss is not finite: {lost:,}."
    return _lines(result, "Loss", "training loss", curves, caption)


def _step_time(result: Result, events: RankEvents) -> Plot:
    curves = _step_curves(events, lambda block: block.step_s)
    if not curves:
        return _lines(result, "Step time", "", curves, "")
    values = np.concatenate([curve.y for curve in curves])
    factor, unit = (1e3, "ms") if np.median(values) < 1 else (1.0, "s")
    is_log = bool(values.min() > 0 and values.max() > 20 * np.median(values))  # one compiling step hides all others
    median = result.metrics["step_time_s"].value if "step_time_s" in result.metrics else None
    warmups = {curve.member: (curve.x[0], steps) for curve in curves if (steps := _warmup_steps(result, curve.member))}

    def decorate(axes: "Axes") -> None:
        for first, steps in set(warmups.values()):
            axes.axvspan(first - 0.5, first + steps - 0.5, color=SHADE, zorder=0)
        if median is not None:
            _reference(axes, factor * median, "median in steady state")
        if is_log:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)

    caption = f"Duration of each step of rank 0 in {unit}{', on a logarithmic axis' if is_log else ''}; "
    caption += f"from {show_value(values.min(), 's')} to {show_value(values.max(), 's')}."
    if warmups:
        caption += (
            f" Shaded: warm-up, left out of the metrics (steps a member: {_span({s for _, s in warmups.values()})})."
        )
    if median is not None:
        caption += f" Dashed: median of the steady state, {show_value(median, 's')}."
    scaled = [Curve(curve.member, curve.x, factor * curve.y) for curve in curves]
    return _lines(result, "Step time", f"step time in {unit}", scaled, caption, decorate=decorate)


def _quality(result: Result, events: RankEvents) -> Plot:
    target = result.config.evaluate.target_quality
    curves = []
    for member, of_rank in events.items():
        found = [event for event in of_rank if isinstance(event, Evaluation)]
        curves += _curve(member, [event.epoch + 1 for event in found], [event.quality for event in found])

    def decorate(axes: "Axes") -> None:
        if target is not None:
            _reference(axes, target, "target")

    caption = f"Quality on the held-out samples after each evaluated epoch; best {_most(curves):.4g}." if curves else ""
    if target is not None:
        caption += f" Dashed: target quality {target:g}."
    return _lines(result, "Quality", "quality", curves, caption, x="epochs trained", decorate=decorate)


def _blocks(of_rank: Sequence[Event]) -> list[Steps]:
    return [event for event in of_rank if isinstance(event, Steps)]


def _step_curves(events: RankEvents, figure: Callable[[Steps], Sequence[float | None]]) -> list[Curve]:
    """A figure of each step, by member; members that recorded nothing finite have no curve."""
    curves = []
    for member, of_rank in events.items():
        steps: list[float] = []
        values: list[float | None] = []
        for block in _blocks(of_rank):
            found = figure(block)
            steps += range(block.first_step, block.first_step + len(found))
            values += found
        curves += _curve(member, steps, values)
    return curves


def _curve(member: int, x: Sequence[float], y: Sequence[float | None]) -> list[Curve]:
    """The curve of the finite values, or no curve."""
    at, values = np.array(x, np.float64), np.array(y, np.float64)  # null becomes nan
    finite = np.isfinite(values)
    return [Curve(member, at[finite], values[finite])] if finite.any() else []


def _warmup_steps(result: Result, member: int) -> int:
    """The steps that the Result's metrics leave out; 0 for a member that has not finished."""
    metric = next(each for each in result.members if each.member == member).metrics.get("throughput_samples_per_s")
    steps: list[int] = (metric.detail or {}).get("warmup_steps", []) if metric else []
    return steps[0] if steps else 0


def _most(curves: list[Curve]) -> float:
    return max(float(curve.y.max()) for curve in curves)


def _span(values: set[str] | set[int]) -> str:
    """`5`, or `1 to 6`."""
    ordered = sorted(values, key=float)
    return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _lines(
    result: Result,
    title: str,
    y: str,
    curves: list[Curve],
    caption: str,
    x: str = "step",
    decorate: Callable[["Axes"], None] = lambda axes: None,
) -> Plot:
    """One line a member, with what was left out stated in the caption."""
    what = "step" if x == "step" else "evaluation"
    if not curves:
        return Plot(title, f"Not shown: no member has recorded a {what} with a value to show.")
    shown = curves[:: -(-len(curves) // MOST_LINES)]
    most = min(MOST_POINTS, MOST_POINTS_OF_ALL // len(shown))
    thinned = [thin(curve, most) for curve in shown]
    count = sum(len(curve.x) for curve in curves)
    caption += f" n = {count:,} {what}{'s' * (count != 1)} of {len(curves)} member{'s' * (len(curves) != 1)}."
    if len(shown) < len(curves):
        caption += f" Drawn: {len(shown)} members, evenly chosen by number."
    if any(len(a.x) < len(b.x) for a, b in zip(thinned, shown, strict=True)):
        caption += f" Thinned: of each line, the smallest and the largest value of each of {most // 2:,} bins of steps."

    def draw(axes: "Axes") -> None:
        _draw_curves(axes, thinned)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        decorate(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderaxespad=0)

    return Plot(title, caption, draw_svg(draw, salt=f"{result.run_id} {title}", alt=f"{title}. {caption}"))


def _draw_curves(axes: "Axes", curves: list[Curve]) -> None:
    """Up to seven members have a colour and a name each; more share one colour."""
    from matplotlib.ticker import MaxNLocator

    are_named = len(curves) <= len(PALETTE)
    for number, curve in enumerate(curves):
        axes.plot(
            curve.x,
            curve.y,
            color=PALETTE[number] if are_named else PALETTE[0],
            alpha=1.0 if are_named else 0.4,
            marker="o" if len(curve.x) <= 40 else "",
            markersize=3,
            label=f"member {curve.member}" if are_named else None,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _reference(axes: "Axes", value: float, label: str) -> None:
    axes.axhline(value, color=GREY, linestyle="--", linewidth=1, label=label)


def draw_svg(draw: Callable[["Axes"], None], salt: str, alt: str) -> str:
    """An `svg` element of one plot."""
    return draw_figure(lambda figure: draw(figure.add_subplot()), 2.9, salt, alt)


def draw_figure(draw: Callable[["Figure"], None], height_inches: float, salt: str, alt: str) -> str:
    """An `svg` element to stand in a page among others: equal for equal data, with `alt` for those who cannot see."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's matplotlibrc says
        matplotlib.rcParams.update({**STYLE, "svg.hashsalt": salt})
        figure = Figure(figsize=(7.6, height_inches), layout="constrained", facecolor="none")
        draw(figure)
        file = io.StringIO()
        # Without Date and the other metadata, nothing of the time or the program's version is in the text.
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = file.getvalue()
    text = text[text.index("<svg") :].replace("<svg", '<svg role="img"', 1)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # figure_1 and the like would be twice in a page
    return text.replace(">", f">\n <title>{escape(alt)}</title>", 1)
