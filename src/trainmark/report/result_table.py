"""One Result on a terminal: metrics, members, warnings."""

from collections.abc import Callable, Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainmark.spec.metrics import metric_rows
from trainmark.spec.plan import describe_scale, describe_slots
from trainmark.spec.result import MemberResult, Metric, Result
from trainmark.spec.tags import RunTags
from trainmark.spec.units import counted, show_interval, show_value

NOTES_BESIDE = 110  # minimum width for notes in the table


def print_result(result: Result, console: Console, tags: RunTags | None = None) -> None:
    """Prints the Result as tables, with the tags of the run."""
    parts: list[RenderableType] = [Text("\n".join([*head_lines(result), *(tag_lines(tags) if tags else ())]))]
    if any(metric.value is not None for metric in result.metrics.values()):
        parts.extend(_metrics(result, notes_below=console.width < NOTES_BESIDE))
    parts.append(_members_table(result))
    for warning in result.warnings:
        parts.append(Text(f"! {warning}", style="yellow"))
    console.print(Group(*parts))


def tag_lines(tags: RunTags) -> list[str]:
    """Returns lines with the tags and the note of a run."""
    lines = [f"tags: {' '.join(tags.tags)}"] if tags.tags else []
    return [*lines, *([f"note: {tags.note}"] if tags.note else [])]


def head_lines(result: Result) -> list[str]:
    """Returns lines with workload, run id, scale, machine and training setup."""
    so_far = ""
    if result.state == "unfinished":
        is_running = any(member.state in ("running", "queued") for member in result.members)
        how = "running" if is_running else f"stopped; resume with: trainmark resume {result.run_id}"
        so_far = f" ({how}); figures so far"
    cpu = result.machine.get("cpu", "an unknown machine")
    lines = [
        f"{result.workload} ({result.size}), run {result.run_id}: {result.state}{so_far}",
        f"{scale_of(result)} on {cpu}: {describe_slots(result.plan)}",
    ]
    return [*lines, training_of(result)] if result.training else lines


def scale_of(result: Result) -> str:
    """`4 members × 2 workers = system scale 8, 2 members at a time`."""
    return f"{describe_scale(result.plan)}, {counted(result.plan.lanes, 'member')} at a time"


def training_of(result: Result) -> str:
    """`resnet-tiny in fp32, batch 32 per worker, 64 global, 0.0185 GFLOP per sample (exact; ai500: 0.0189)`."""
    training = result.training
    sharer = "worker" if training["workers_per_replica"] == 1 else f"{training['workers_per_replica']} workers"
    text = f"{training['model']} in {training['precision']}, batch {training['batch_per_replica']} per {sharer}, "
    text += f"{training['global_batch']} global"
    flop = training["training_flop_per_sample"]
    if flop is None:
        return text
    (first, value), *others = flop.items()
    also = "".join(f"; {name}: {other / 1e9:.4g}" for name, other in others)
    return f"{text}, {value / 1e9:.4g} GFLOP per sample ({first}{also})"


def _metrics(result: Result, *, notes_below: bool) -> Iterator[RenderableType]:
    """Yields the table of metrics, with notes in it or below it."""
    table = Table("metric", "value", "95 % interval", "n", box=None, header_style="bold", pad_edge=False)
    notes: list[str] = []
    if not notes_below:
        table.add_column("note")
    for name, row in metric_rows().items():
        metric = result.metrics.get(name)  # may be missing in a Result of an earlier version
        if metric is None or (row.hide_if_unavailable if metric.value is None else not row.is_shown(metric)):
            continue
        value = "unavailable" if metric.value is None else show_value(metric.value, metric.unit)
        note = note_of(metric, row.note)
        cells = [row.label, value, interval_of(metric), str(metric.n or "")]
        table.add_row(*cells, *([] if notes_below else [note]), style="bold" if row.is_headline else None)
        notes += [f"{row.label}: {note}"] if notes_below and note else []
    yield table
    yield from (Text(note) for note in notes)


def interval_of(metric: Metric) -> str:
    """`1.2 – 1.4 s`, or an empty string."""
    return show_interval(*metric.ci95, metric.unit) if metric.ci95 else ""


def note_of(metric: Metric, own_note: Callable[[Metric], str]) -> str:
    """Returns why a metric is unavailable, or notes on its convention and the members it covers."""
    if metric.reason:
        return metric.reason
    detail = metric.detail or {}
    notes = [own_note(metric)]
    if so_far := detail.get("so_far"):
        notes.append(f"so far, {so_far['members']} of {counted(so_far['of_members'], 'member')}")
    if left_out := detail.get("left_out"):
        notes.append(f"without {left_out}")
    return "; ".join(note for note in notes if note)


def state_of(member: MemberResult) -> str:
    """Returns the member's state, and whether it was restarted from a checkpoint."""
    return f"{member.state}, restarted" if member.restarted else member.state


def _members_table(result: Result) -> Padding:
    speeds_shown = ("throughput_samples_per_s", "flops")  # as many as fit
    headings = [metric_rows()[name].member_heading or name for name in speeds_shown]
    table = Table("member", "state", "attempts", "epochs", "quality", *headings, box=None, header_style="bold")
    for member in result.members:
        speeds = [member.metrics.get(name) for name in speeds_shown]
        table.add_row(
            str(member.member),
            state_of(member),
            str(member.attempts),
            str(member.epochs_done),
            "" if member.quality is None else f"{member.quality:.4f}",
            *("" if m is None or m.value is None else show_value(m.value, m.unit) for m in speeds),
        )
    return Padding(table, (1, 0, 0, 0), expand=False)
