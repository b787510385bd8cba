"""Bars by name and heat maps, as data and drawn."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# Okabe and Ito's colour-blind safe palette, without yellow, which is invisible on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHADE = "#e8e8e8"
MAX_LEVEL_CHARACTERS = 32  # of all names together: more are slanted
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Bars:
    """A bar per name, optionally with an interval; several `Bars` of a plot stand side by side."""

    label: str
    names: tuple[str, ...]
    y: Numbers  # nan: a gap
    low: Numbers | None = None
    high: Numbers | None = None
    are_bounds: tuple[bool, ...] = ()  # which are lower bounds, marked ≥; default: none


@dataclass(frozen=True)
class HeatMap:
    """A number per cell; nan is a gap, drawn hatched."""

    title: str
    x_label: str
    y_label: str
    x_names: tuple[str, ...]
    y_names: tuple[str, ...]
    values: Numbers  # rows × columns
    unit: str = ""
    span: tuple[float | None, float | None] = (None, None)  # of the colours


def draw_bars(axes: "Axes", bars: tuple[Bars, ...]) -> None:
    width = 0.8 / len(bars)
    for number, each in enumerate(bars):
        at = np.arange(len(each.names)) + (number - (len(bars) - 1) / 2) * width
        # One run has no interval: neither caps nor an end of its own.
        low, high = (each.y if end is None else np.where(np.isnan(end), each.y, end) for end in (each.low, each.high))
        has_interval = high > low
        axes.bar(at, each.y, width * 0.92, color=PALETTE[number % len(PALETTE)], label=each.label)
        if has_interval.any():
            error = np.abs(np.stack([each.y - low, high - each.y]))[:, has_interval]
            axes.errorbar(
                at[has_interval], each.y[has_interval], error, fmt="none", ecolor="black", elinewidth=0.8, capsize=2
            )
        are_bounds = each.are_bounds or (False,) * len(each.y)
        for x, value, bottom, top, is_bound in zip(at, each.y, low, high, are_bounds, strict=True):
            is_down = value < 0
            axes.annotate(
                f"{'≥ ' * is_bound}{_short(value)}" if np.isfinite(value) else "no result",
                (x, bottom if is_down else top if np.isfinite(value) else 0),
                xytext=(0, -2 if is_down else 2),
                textcoords="offset points",
                ha="center",
                va="top" if is_down else "bottom",
                fontsize=7,
                rotation=0 if np.isfinite(value) else 90,
            )
    names = bars[0].names
    is_crowded = len(names) > 4 or sum(map(len, names)) > MAX_LEVEL_CHARACTERS
    axes.set_xticks(np.arange(len(names)), names, rotation=20 if is_crowded else 0)
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.12)  # room for the numbers


def _short(value: float) -> str:
    """Three digits, or all those before the point: 0.123, 12.3, 2517."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def draw_heat_map(canvas: "Canvas", axes: "Axes", plot: HeatMap) -> None:
    """Draws cells from dark (low) to light (high) with their numbers; viridis is safe for the colour-blind."""
    low, high = plot.span
    image = axes.imshow(np.ma.masked_invalid(plot.values), cmap="viridis", vmin=low, vmax=high, aspect="auto")
    axes.set_facecolor(SHADE)
    threshold = np.mean(image.get_clim())
    for (row, column), value in np.ndenumerate(plot.values):
        text, colour = ("–", "black") if not np.isfinite(value) else (f"{value:.3g}", "white")
        colour = "black" if np.isfinite(value) and value > threshold else colour
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    axes.set_xticks(range(len(plot.x_names)), plot.x_names)
    axes.set_yticks(range(len(plot.y_names)), plot.y_names)
    axes.set_title(plot.title, fontsize=9, loc="left", pad=2)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=False)
    canvas.colorbar(image, ax=axes, label=plot.unit or None)
