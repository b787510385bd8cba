"""Curves, plots and figures as data, drawn as SVG for pages and as PDF for papers."""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from trainmark.report.bars import PALETTE, SHADE, Bars, HeatMap, Numbers, draw_bars, draw_heat_map
from trainmark.spec.units import with_prefix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

GREY = "#666666"
DASHES = ("--", ":", "-.")
WIDTH_INCHES, LEGEND_INCHES = 7.6, 0.5
MAX_MARKED = 40  # points per line that get markers


class Look(NamedTuple):
    """What tells a curve apart from the others of a figure."""

    colour: str
    dashes: str
    marker: str


# All colours with solid lines first, then again with dashes.
LOOKS = tuple(Look(colour, *line) for line in zip(("-", *DASHES), "os^D", strict=True) for colour in PALETTE)

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, accessible
    "pdf.fonttype": 42,  # TrueType, which publishers accept
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # same width, if the first is not installed
    "font.size": 9,
    "text.parse_math": False,  # a $ is a $
    "path.simplify": False,  # `thin` is the only downsampling, and is stated
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.2,
}

Span = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """Values at each `x`, optionally with an interval.

    `shape`: a line through the points; stairs, where each value holds from the previous x to its own; or the area
    between `low` and `high`, with stairs as its edges.
    """

    label: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    shape: Literal["line", "stairs", "area"] = "line"
    colour: str | None = None  # None: that of its label, the same in all plots of a figure


class Reference(NamedTuple):
    """A dashed reference line: a level, or an ideal curve if it has an `x`."""

    label: str
    y: float | Numbers
    x: Numbers | None = None


@dataclass(frozen=True)
class Plot:
    """One pair of axes with units in the labels; `shaded` spans of x get a grey background."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...] = ()
    references: tuple[Reference, ...] = ()
    shaded: tuple[Span, ...] = ()
    x_scale: Literal["real", "whole", "log2"] = "real"
    is_log_y: bool = False
    x_range: tuple[float | None, float | None] = (None, None)
    y_range: tuple[float | None, float | None] = (None, None)
    bars: tuple[Bars, ...] = ()  # instead of curves
    is_crowd: bool = False  # of curves that are alike, such as members: beyond the palette, unnamed in one colour

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.curves and not any(np.isfinite(each.y).any() for each in self.bars)


@dataclass(frozen=True)
class Figure:
    """Plots in rows with one title and legend; without plots, the caption gives the reason.

    `name` is unique within a page.
    """

    title: str
    caption: str
    rows: tuple[tuple[Plot | HeatMap | None, ...], ...] = ()
    heights_inches: tuple[float, ...] = (2.9,)
    name: str = ""

    @cached_property
    def svg(self) -> str | None:
        """An `svg` element to embed in a page; None without plots."""
        return draw_svg(self) if self.rows else None


def thin(curve: Curve, most: int) -> Curve:
    """Downsamples to at most `most` points: minimum and maximum of each of `most` / 2 equal bins."""
    if len(curve.x) <= most:
        return curve
    edges = np.linspace(0, len(curve.x), most // 2 + 1).astype(int)
    bins = [(start, curve.y[start:stop]) for start, stop in pairwise(edges)]
    kept = np.unique([start + end for start, y in bins for end in (y.argmin(), y.argmax())])
    low, high = (None if end is None else end[kept] for end in (curve.low, curve.high))
    return Curve(curve.label, curve.x[kept], curve.y[kept], low, high, curve.shape, curve.colour)


def draw_svg(figure: Figure) -> str:
    """Returns the figure as a reproducible `svg` element, with its caption as accessible title."""
    # Date and version metadata would make the text irreproducible.
    text = _draw(figure, "svg", dict.fromkeys(("Date", "Creator", "Format", "Type"))).decode()
    text = text[text.index("<svg") :].replace("<svg", '<svg role="img"', 1)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # ids such as figure_1 would be duplicates within a page
    return text.replace(">", f">\n <title>{escape(f'{figure.title}. {figure.caption}')}</title>", 1)


def draw_pdf(figure: Figure) -> bytes:
    """Returns the figure as a reproducible one-page PDF."""
    return _draw(figure, "pdf", {"CreationDate": None, "Title": f"{figure.title}. {figure.caption}"})


def _draw(figure: Figure, file_format: str, metadata: dict[str, Any]) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # ignore the user's matplotlibrc
        matplotlib.rcParams.update({**STYLE, "svg.hashsalt": figure.name or figure.title})
        height = sum(figure.heights_inches) + (LEGEND_INCHES if len(figure.rows) > 1 else 0.0)
        canvas = Canvas(figsize=(WIDTH_INCHES, height), layout="constrained", facecolor="none")
        draw_on(canvas, figure)
        file = io.BytesIO()
        canvas.savefig(file, format=file_format, metadata=metadata)
    return file.getvalue()


def draw_on(canvas: "Canvas", figure: Figure) -> None:
    """Draws all plots with a shared x axis and one legend above them."""
    grid: Any = canvas.subplots(
        len(figure.rows),
        max(map(len, figure.rows)),
        sharex=len(figure.rows) > 1,
        squeeze=False,
        gridspec_kw={"height_ratios": figure.heights_inches},
    )
    looks = _looks(figure)
    shared_x = _all_x(_plots(figure)) if len(figure.rows) > 1 else None
    labelled: dict[str, Any] = {}
    for axes_of_row, plots in zip(grid, figure.rows, strict=True):
        for axes, plot in zip(axes_of_row, plots, strict=True):
            if plot is None:
                axes.set_axis_off()
            elif isinstance(plot, HeatMap):
                draw_heat_map(canvas, axes, plot)
            else:
                _draw_plot(axes, plot, looks, _all_x([plot]) if shared_x is None else shared_x)
                handles, labels = axes.get_legend_handles_labels()
                labelled |= dict(zip(labels, handles, strict=True))
    if labelled:
        canvas.legend(list(labelled.values()), list(labelled), loc="outside upper left", ncols=4, frameon=False)


def _plots(figure: Figure) -> list[Plot]:
    return [plot for row in figure.rows for plot in row if isinstance(plot, Plot)]


def _looks(figure: Figure) -> dict[str, Look]:
    """Returns the look of each label; empty if there are more labels than can be told apart."""
    plots = _plots(figure)
    curves = [curve for plot in plots for curve in plot.curves]
    labels = dict.fromkeys(curve.label for curve in curves)
    # Stairs have no markers, and their steps hide dashes.
    is_crowd = any(plot.is_crowd for plot in plots) or any(curve.shape == "stairs" for curve in curves)
    most = len(PALETTE) if is_crowd else len(LOOKS)
    return dict(zip(labels, LOOKS, strict=False)) if len(labels) <= most else {}


def _draw_plot(axes: "Axes", plot: Plot, looks: Mapping[str, Look], ticks: Sequence[float]) -> None:
    for begin, end in plot.shaded:
        axes.axvspan(begin, end, color=SHADE, zorder=0)
    for curve in plot.curves:
        _draw_curve(axes, curve, looks.get(curve.label))
    if plot.bars:
        draw_bars(axes, plot.bars)
    for (label, y, x), dashes in zip(plot.references, cycle(DASHES)):
        style: dict[str, Any] = {"color": GREY, "linestyle": dashes, "linewidth": 1, "label": label}
        if x is None:
            axes.axhline(float(y), **style)
        else:
            axes.plot(x, y, **style)
    axes.set_title(plot.title, fontsize=9, loc="left", pad=2)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    _scale_x(axes, plot, ticks)
    _scale_y(axes, plot)


def _draw_curve(axes: "Axes", curve: Curve, look: Look | None) -> None:
    """Draws a curve; without a look it is one of many, unnamed."""
    colour, dashes, marker = look or LOOKS[0]
    colour, label = curve.colour or colour, curve.label if look else None
    if curve.low is not None and curve.high is not None:
        is_area = curve.shape == "area"
        axes.fill_between(
            curve.x,
            curve.low,
            curve.high,
            step="pre" if is_area else None,
            color=colour,
            alpha=0.6 if is_area else 0.2,
            linewidth=0,
            label=label if is_area else None,
        )
    if curve.shape != "area":
        axes.plot(
            curve.x,
            curve.y,
            color=colour,
            linestyle=dashes,
            alpha=1.0 if look else 0.4,
            drawstyle="steps-pre" if curve.shape == "stairs" else "default",
            marker=marker if curve.shape == "line" and len(curve.x) <= MAX_MARKED else "",
            markersize=3,
            label=label,
        )


def _scale_x(axes: "Axes", plot: Plot, ticks: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    if plot.bars:
        return
    if plot.x_scale == "whole":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif plot.x_scale == "log2":
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(ticks))  # one per measured x
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(*plot.x_range)
    axes.tick_params(labelbottom=bool(plot.x_label))


def _scale_y(axes: "Axes", plot: Plot) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if plot.is_log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))  # 10ⁿ would be markup, which is off
        axes.yaxis.set_minor_locator(NullLocator())
    elif plot.y_label in ("FLOP/s", "FLOP"):
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: with_prefix(y, "").strip()))  # 20 G, not 2 · 10¹⁰
    axes.set_ylim(*plot.y_range)


def _all_x(plots: Iterable[Plot]) -> list[float]:
    return sorted({float(x) for plot in plots for curve in plot.curves for x in curve.x})
