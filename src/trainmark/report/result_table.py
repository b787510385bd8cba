"""One Result on a terminal: the figures first, then the members, then what to be careful about."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainmark.spec.plan_text import describe_scale, describe_slots
from trainmark.spec.result import Metric, Result
from trainmark.spec.units import counted, show_bytes, show_value

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
    ("peak_memory_bytes", "peak memory of a worker"),
    ("communication_share", "waiting for other workers"),
    ("communication_bytes_per_step", "sent by a worker per step"),
    ("communication_intra_node_bytes_per_s", "sent by a member in nodes"),
    ("communication_inter_node_bytes_per_s", "sent by a member between nodes"),
    ("network_bytes_per_s", "through a node's network"),
    ("cpu_utilisation", "CPU utilisation"),
    ("gpu_utilisation", "GPU utilisation"),
    ("bubble_share", "pipeline bubble"),
    ("staleness_steps", "staleness of gradients"),
    ("data_wait_share", "waiting for data"),
    ("harness_overhead_share", "harness overhead"),
)

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
        parts.append(_metrics_table(result))
    parts.append(_members_table(result))
    for warning in result.warnings:
        parts.append(Text(f"! {warning}", style="yellow"))
    console.print(Group(*parts))


def _head(result: Result) -> Text:
    plan = result.plan
    return Text(
        f"{result.workload} ({result.size}), run {result.run_id}: {result.state}\n"
        f"{describe_scale(plan)}, {counted(plan['lanes'], 'member')} at a time on {result.machine['cpu']}: "
        f"{describe_slots(plan)}"
    )


def _metrics_table(result: Result) -> Table:
    table = Table("metric", "value", "95 % interval", "n", "note", box=None, header_style="bold", pad_edge=False)
    for name, label in ROWS:
        metric = result.metrics[name]
        if metric.value is None and name in ONLY_IF_THERE:
            continue
        interval = ""
        if metric.ci95 is not None:
            interval = " – ".join(show_value(bound, metric.unit) for bound in metric.ci95)
        value = "unavailable" if metric.value is None else show_value(metric.value, metric.unit)
        style = "bold" if name in ("flops", "vflops", "quality_ensemble") else None
        table.add_row(label, value, interval, str(metric.n or ""), _note(name, metric), style=style)
    return table


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
