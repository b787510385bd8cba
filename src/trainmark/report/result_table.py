"""One Result on a terminal: the figures first, then the members, then what to be careful about."""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainmark.spec.result import Metric, Result
from trainmark.spec.units import show_bytes, show_interval, show_value

# Name in the Result, name in the table; in this order.
ROWS = (
    ("throughput_samples_per_s", "throughput"),
    ("step_time_s", "step time (median)"),
    ("epoch_time_s", "epoch time (median)"),
    ("flops", "FLOPS (Eq. 6)"),
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
    parts: list[RenderableType] = [_head(result)]
    if any(member.state == "finished" for member in result.members):
        parts.extend(_metrics(result, notes_below=console.width < NOTES_BESIDE))
    parts.append(_members_table(result))
    for warning in result.warnings:
        parts.append(Text(f"! {warning}", style="yellow"))
    console.print(Group(*parts))


def _head(result: Result) -> Text:
    plan = result.plan
    return Text(
        f"{result.workload} ({result.size}), run {result.run_id}: {result.state}\n"
        f"{plan['members']} member(s) × {plan['workers_per_member']} worker(s) = system scale {plan['system_scale']}, "
        f"{plan['lanes']} member(s) at a time on {result.machine['cpu']}"
    )


def _metrics(result: Result, *, notes_below: bool) -> Iterator[RenderableType]:
    """The table of metrics; where there is no room for notes in it, they follow below."""
    table = Table("metric", "value", "95 % interval", "n", box=None, header_style="bold", pad_edge=False)
    notes: list[str] = []
    if not notes_below:
        table.add_column("note")
    for name, label in ROWS:
        metric = result.metrics[name]
        if metric.value is None and name in ONLY_IF_THERE:
            continue
        interval = ""
        if metric.ci95 is not None:
            interval = show_interval(*metric.ci95, metric.unit)
        value = "unavailable" if metric.value is None else show_value(metric.value, metric.unit)
        style = "bold" if name in ("flops", "vflops", "quality_ensemble") else None
        note = _note(name, metric)
        table.add_row(label, value, interval, str(metric.n or ""), *([] if notes_below else [note]), style=style)
        notes += [f"{label}: {note}"] if notes_below and note else []
    yield table
    yield from (Text(note) for note in notes)


def _note(name: str, metric: Metric) -> str:
    detail = metric.detail or {}
    if metric.reason:
        return metric.reason
    if name == "flops":
        return f"{metric.convention} convention; ai500: {show_value(detail['by_convention']['ai500'], 'FLOP/s')}"
    if name == "ceiling_flops":
        return f"{detail['precision']}, {detail['kernel']}"
    if name == "vflops":
        ratio = f"{detail['quality']:.4g} / {detail['target_quality']:g}"
        return f"× ({ratio})^{metric.exponent:g} = × {detail['coefficient']:.3g}"
    if name == "staging_time_s":
        return f"{show_bytes(detail['copied_bytes'])} copied; packs found and used again: {detail['reused_packs']}"
    return str(detail.get("note", ""))


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
            f"{member.state}, restarted" if member.restarted else member.state,
            str(member.attempts),
            str(member.epochs_done),
            "" if member.quality is None else f"{member.quality:.4f}",
            *("" if m is None or m.value is None else show_value(m.value, m.unit) for m in speeds),
        )
    return Padding(table, (1, 0, 0, 0), expand=False)
