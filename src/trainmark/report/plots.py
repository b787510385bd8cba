"""Plots of a run: learning rate, loss, step time and quality per member, with captions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from trainmark.report.drawing import Curve, Figure, Plot, Reference, thin
from trainmark.spec.events import EpochStop, Evaluation, Event, Steps
from trainmark.spec.result import Result
from trainmark.spec.units import counted, show_value

MAX_POINTS = 5000  # per line; a page is about 700 pixels wide
MAX_LINES = 64
MAX_POINTS_OF_ALL = 40_000  # of all lines together, so that browsers can handle the page

RankEvents = Mapping[int, Sequence[Event]]  # member → the events of its rank 0


def plots_of(result: Result, events: RankEvents) -> list[Figure]:
    """Returns the figures of a run in page order."""
    return [
        figure_or_reason("Learning rate", lambda: _learning_rate(result, events)),
        figure_or_reason("Loss", lambda: _loss(result, events)),
        figure_or_reason("Step time", lambda: _step_time(result, events)),
        figure_or_reason("Quality", lambda: _quality(result, events)),
    ]


def figure_or_reason(title: str, draw: Callable[[], Figure]) -> Figure:
    """Draws the figure; returns one with the reason instead if the events cannot be drawn."""
    try:
        figure = draw()
        _ = figure.svg
        return figure
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        return Figure(title, f"Not shown: these events cannot be drawn ({type(error).__name__}: {error}).")


def _learning_rate(result: Result, events: RankEvents) -> Figure:
    title = "Learning rate"
    curves = _step_curves(events, lambda block: block.learning_rate)
    if not curves and _step_curves(events, lambda block: block.step_s):
        return Figure(title, "Not shown: this run is of an earlier version, which did not record the learning rate.")
    last = {f"{curve.y[-1]:.4g}" for curve in curves.values()}
    caption = f"Highest {_most(curves):.4g}; at the last recorded step {_span(last)}." if curves else ""
    caption = f"Learning rate of each step; equal ones coincide. {caption}"
    return _figure(result, caption, curves, Plot(title, "step", "learning rate", ()))


def _loss(result: Result, events: RankEvents) -> Figure:
    curves = _step_curves(events, lambda block: block.loss)
    recorded = sum(len(block.loss) for of_rank in events.values() for block in _blocks(of_rank))
    caption = "Training loss of each step, over the samples of the first replica (rank 0)."
    if lost := recorded - sum(len(curve.x) for curve in curves.values()):
        caption += f" Omitted steps with a loss that is not finite: {lost:,}."
    return _figure(result, caption, curves, Plot("Loss", "step", "training loss", ()))


def _step_time(result: Result, events: RankEvents) -> Figure:
    curves = _step_curves(events, lambda block: block.step_s)
    if not curves:
        return _figure(result, "", curves, Plot("Step time", "step", "", ()))
    values = np.concatenate([curve.y for curve in curves.values()])
    factor, unit = (1e3, "ms") if np.median(values) < 1 else (1.0, "s")
    # One step with compilation would hide all others.
    is_log = bool(values.min() > 0 and values.max() > 20 * np.median(values))
    median = result.metrics["step_time_s"].value if "step_time_s" in result.metrics else None
    warmups = {member: steps for member in curves if (steps := _warmup_steps(result, member))}
    caption = f"Duration of each step of rank 0 in {unit}{', on a logarithmic axis' if is_log else ''}; "
    caption += f"from {show_value(values.min(), 's')} to {show_value(values.max(), 's')}."
    if warmups:
        caption += f" Shaded: warm-up, excluded from the metrics (steps per member: {_span(set(warmups.values()))})."
    if median is not None:
        caption += f" Dashed: median of the steady state, {show_value(median, 's')}."
    plot = Plot(
        "Step time",
        "step",
        f"step time in {unit}",
        (),
        references=() if median is None else (Reference("median in steady state", factor * median),),
        shaded=tuple({(curves[m].x[0] - 0.5, curves[m].x[0] + steps - 0.5) for m, steps in warmups.items()}),
        is_log_y=is_log,
        y_range=(None if is_log else 0, None),
    )
    return _figure(result, caption, {m: replace(curve, y=factor * curve.y) for m, curve in curves.items()}, plot)


def _quality(result: Result, events: RankEvents) -> Figure:
    target, curves = result.config.evaluate.target_quality, dict[int, Curve]()
    for member, of_rank in events.items():
        curves |= _curve(member, *quality_over_epochs(of_rank))
    caption = f"Quality on the held-out samples after each evaluated epoch; best {_most(curves):.4g}." if curves else ""
    if target is not None:
        caption += f" Dashed: target quality {target:g}."
    references = () if target is None else (Reference("target", target),)
    return _figure(result, caption, curves, Plot("Quality", "epochs trained", "quality", (), references), "evaluation")


def quality_over_epochs(of_rank: Sequence[Event]) -> tuple[list[float], list[float]]:
    """Returns the epochs trained before each evaluation, and its quality."""
    found = [event for event in of_rank if isinstance(event, Evaluation)]
    trained = {event.epoch: event.epochs_done for event in of_rank if isinstance(event, EpochStop)}
    return [trained.get(event.epoch, event.epoch + 1) for event in found], [event.quality for event in found]


def _blocks(of_rank: Sequence[Event]) -> list[Steps]:
    return [event for event in of_rank if isinstance(event, Steps)]


def _step_curves(events: RankEvents, figure: Callable[[Steps], Sequence[float | None]]) -> dict[int, Curve]:
    """Returns a curve over steps per member; members without finite values have none."""
    curves: dict[int, Curve] = {}
    for member, of_rank in events.items():
        steps: list[float] = []
        values: list[float | None] = []
        for block in _blocks(of_rank):
            found = figure(block)
            steps += range(block.first_step, block.first_step + len(found))
            values += found
        curves |= _curve(member, steps, values)
    return curves


def _curve(member: int, x: Sequence[float], y: Sequence[float | None]) -> dict[int, Curve]:
    """Returns the member's curve of finite values, or nothing."""
    at, values = np.array(x, np.float64), np.array(y, np.float64)  # null becomes nan
    finite = np.isfinite(values)
    return {member: Curve(f"member {member}", at[finite], values[finite])} if finite.any() else {}


def _warmup_steps(result: Result, member: int) -> int:
    """Returns the warm-up steps excluded from the metrics; 0 for an unfinished member."""
    metric = next(each for each in result.members if each.member == member).metrics.get("throughput_samples_per_s")
    steps: list[int] = (metric.detail or {}).get("warmup_steps", []) if metric else []
    return steps[0] if steps else 0


def _most(curves: Mapping[int, Curve]) -> float:
    return max(float(curve.y.max()) for curve in curves.values())


def _span(values: set[str] | set[int]) -> str:
    """`5`, or `1 to 6`."""
    ordered = sorted(values, key=float)
    return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _figure(result: Result, caption: str, of_members: Mapping[int, Curve], plot: Plot, what: str = "step") -> Figure:
    """Returns the plot with one curve per member; the caption states what is omitted."""
    if not of_members:
        return Figure(
            plot.title,
            f"Not shown: no member has recorded a{'n' * (what == 'evaluation')} {what} with a finite value.",
        )
    curves = list(of_members.values())
    shown = curves[:: -(-len(curves) // MAX_LINES)]
    most = min(MAX_POINTS, MAX_POINTS_OF_ALL // len(shown))
    thinned = tuple(thin(curve, most) for curve in shown)
    count = sum(len(curve.x) for curve in curves)
    caption += f" n = {counted(count, what)} of {counted(len(curves), 'member')}."
    if len(shown) < len(curves):
        caption += f" Drawn: {len(shown)} members, evenly spaced by number."
    if any(len(a.x) < len(b.x) for a, b in zip(thinned, shown, strict=True)):
        caption += f" Downsampled: minimum and maximum of each of {most // 2:,} bins of steps per line."
    drawn = replace(plot, title="", curves=thinned, x_scale="whole", is_crowd=True)  # the figure has the title
    return Figure(plot.title, caption, ((drawn,),), name=f"{result.run_id} {plot.title}")
