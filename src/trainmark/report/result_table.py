"""One Result on a terminal: the figures first, then the members, then what to be careful about."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainmark.spec.plan import describe_scale, describe_slots
from trainmark.spec.result import MemberResult, Metric, Result
from trainmark.spec.units import counted, show_bytes, show_interval, show_value

# Name in the Result, name in the table; in this order.
ROWS = (
    ("throughput_samples_per_s", "throughput"),
    ("step_time_s", "step time (median)"),
    ("epoch_time_s", "epoch time (median)"),
    ("flops", "FLOPS (Eq. 6)"),
    ("flops_steady", "FLOPS, settled steps"),
    ("ceiling_flops", "ceiling (measured)"),
    ("flops_share_of_ceiling", "share of ceiling"),
    ("quality_member_mean", "quality, mean member"),
    ("quality_member_best", "quality, best member"),
    ("quality_out_of_bag", "quality, out of bag"),
    ("quality_ensemble", "quality, ensemble"),
    ("vflops", "VFLOPS (Eq. 7)"),
    ("time_to_train_all_s", "time to train all (TTTa)"),
    ("staging_time_s", "staging, before training"),
    ("models_per_minute", "models per minute"),
    ("peak_memory_bytes", "peak memory per worker"),
    ("communication_share", "waiting for other workers"),
    ("communication_bytes_per_step", "sent by a worker per step"),
    ("communication_intra_node_bytes_per_s", "intra-node traffic"),
    ("communication_inter_node_bytes_per_s", "inter-node traffic"),
    ("network_bytes_per_s", "node network traffic"),
    ("cpu_utilisation", "CPU utilisation"),
    ("gpu_utilisation", "GPU utilisation"),
    ("bubble_share", "pipeline bubble"),
    ("staleness_steps", "staleness of gradients"),
    ("data_wait_share", "waiting for data"),
    ("harness_overhead_share", "harness overhead"),
)

NOTES_BESIDE = 110  # columns from which on notes have room beside the figures

# Left out where a run has no such thing.
ONLY_IF_THERE = {
    "communication_share",
    "communication_bytes_per_step",
    "communication_intra_node_bytes_per_s",
    "communication_inter_node_bytes_per_s",
    "network_bytes_per_s",
    "gpu_utilisation",
    "bubble_share",
    "staleness_steps",
    "staging_time_s",
}


def print_result(result: Result, console: Console) -> None:
    """The Result as tables."""
    parts: list[RenderableType] = [Text("\n".join(head_lines(result)))]
    if any(metric.value is not None for metric in result.metrics.values()):
        parts.extend(_metrics(result, notes_below=console.width < NOTES_BESIDE))
    parts.append(_members_table(result))
    for warning in result.warnings:
        parts.append(Text(f"! {warning}", style="yellow"))
    console.print(Group(*parts))


def head_lines(result: Result) -> list[str]:
    """Which run of what, at which scale and where, and what each member trains."""
    so_far = ""
    if result.state == "unfinished":
        is_running = any(member.state in ("running", "queued") for member in result.members)
        how = "running" if is_running else f"stopped; go on with: trainmark resume {result.run_id}"
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
    """The table of metrics; where there is no room for notes in it, they follow below."""
    table = Table("metric", "value", "95 % interval", "n", box=None, header_style="bold", pad_edge=False)
    notes: list[str] = []
    if not notes_below:
        table.add_column("note")
    for name, label in ROWS:
        metric = result.metrics.get(name)  # a Result of an earlier version may lack it
        if metric is None or (metric.value is None and name in ONLY_IF_THERE):
            continue
        value = "unavailable" if metric.value is None else show_value(metric.value, metric.unit)
        style = "bold" if name in ("flops", "vflops", "quality_ensemble") else None
        note = note_of(name, metric)
        row = [label, value, interval_of(metric), str(metric.n or "")]
        table.add_row(*row, *([] if notes_below else [note]), style=style)
        notes += [f"{label}: {note}"] if notes_below and note else []
    yield table
    yield from (Text(note) for note in notes)


def interval_of(metric: Metric) -> str:
    """`1.2 – 1.4 s`; empty where there is none."""
    return show_interval(*metric.ci95, metric.unit) if metric.ci95 else ""


def note_of(name: str, metric: Metric) -> str:
    """Why a metric is unavailable, or what to know of it: what it counts by, and which members it is made of."""
    if metric.reason:
        return metric.reason
    detail = metric.detail or {}
    notes = [_own_note(name, metric, detail)]
    if so_far := detail.get("so_far"):
        notes.append(f"so far, {so_far['members']} of {counted(so_far['of_members'], 'member')}")
    if left_out := detail.get("left_out"):
        notes.append(f"without {left_out}")
    return "; ".join(note for note in notes if note)


def _own_note(name: str, metric: Metric, detail: dict[str, Any]) -> str:
    if name == "flops" and "by_convention" in detail:
        return f"{metric.convention} convention; ai500: {show_value(detail['by_convention']['ai500'], 'FLOP/s')}"
    if name == "ceiling_flops":
        return "; ".join(
            [f"{detail['precision']}, {detail['kernel']}", *([detail["note"]] if "note" in detail else [])]
        )
    if name == "vflops" and "coefficient" in detail:
        ratio = f"{detail['quality']:.4g} / {detail['target_quality']:g}"
        return f"× ({ratio})^{metric.exponent:g} = × {detail['coefficient']:.3g}"
    if name == "staging_time_s":
        return f"{show_bytes(detail['copied_bytes'])} copied; packs found and used again: {detail['reused_packs']}"
    if "note" in detail:
        return str(detail["note"])
    return f"{metric.convention} convention" if metric.convention else ""


def state_of(member: MemberResult) -> str:
    """The member's state, and whether it went on from a checkpoint."""
    return f"{member.state}, restarted" if member.restarted else member.state


def _members_table(result: Result) -> Padding:
    table = Table(
        "member",
        "state",
        "attempts",
        "epochs",
        "quality",
        "throughput",
        "FLOPS",
        box=None,
        header_style="bold",
    )
    for member in result.members:
        speeds = [member.metrics.get(name) for name in ("throughput_samples_per_s", "flops")]
        table.add_row(
            str(member.member),
            state_of(member),
            str(member.attempts),
            str(member.epochs_done),
            "" if member.quality is None else f"{member.quality:.4f}",
            *("" if m is None or m.value is None else show_value(m.value, m.unit) for m in speeds),
        )
    return Padding(table, (1, 0, 0, 0), expand=False)
