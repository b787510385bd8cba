"""Warnings on speed metrics: warm-up in short runs, training above the ceiling, and load by other processes."""

import math
from collections.abc import Mapping
from typing import Any

from trainmark.collect.measured import Measured
from trainmark.collect.metrics.ceiling import REPORT, read_measurements
from trainmark.collect.metrics.flops import NEGLIGIBLE
from trainmark.spec.length import length_setting
from trainmark.spec.result import Metric
from trainmark.spec.units import show_duration

MAX_OTHERS = 0.1  # of a member's core time; below are system daemons and clock ticks


def name_members(numbers: list[str]) -> str:
    """`member 3`, `members 3, 5`."""
    return f"member{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def warm_up_in_flops(measured: Measured, metrics: dict[str, Metric]) -> list[str]:
    """Warns if warm-up affects FLOPS of a short run."""
    found = metrics["flops_steady"].detail
    if found is None or abs(1 - found["whole_training_share"]) <= NEGLIGIBLE:
        return []
    share = found["whole_training_share"]
    if share > 1:
        return [f"FLOPS over the whole training are {share - 1:.0%} above steady state: steps became slower"]
    text = f"FLOPS over the whole training are {1 - share:.0%} below steady state"
    if found["epochs_until_negligible"] is None:
        return [f"{text}: {show_duration(found['between_steps_s'])} of each epoch are spent between steps"]
    lasts_s, setting = _longer(measured, found)
    return [
        f"{text}: warm-up took {show_duration(found['warmup_s'])} of {show_duration(found['training_s'])}. They agree "
        f"within {NEGLIGIBLE:.0%} after about {show_duration(lasts_s)} of training: --set {setting}"
    ]


def _longer(measured: Measured, found: dict[str, Any]) -> tuple[float, str]:
    """Returns how long to train until warm-up is negligible, and the setting for it."""
    name = length_setting(measured.config.train)
    epochs: float = found["epochs_until_negligible"]
    if name != "train.epochs":
        epochs = found["steps_until_negligible"] / found["steps_per_epoch"]
    lasts_s = found["warmup_s"] + epochs * (found["epoch_s"] + found["between_steps_s"])
    values = {
        "train.epochs": f"{epochs:g}",
        "train.steps": str(found["steps_until_negligible"]),
        "train.minutes": f"{math.ceil(lasts_s / 6) / 10:g}",
    }
    return lasts_s, f"{name}={values[name]}"


def above_ceiling(metrics: dict[str, Metric]) -> list[str]:
    """Warns if training was faster than the ceiling."""
    reason = metrics["ceiling_flops"].reason or ""
    return [reason] if REPORT in reason else []


def disturbed_ceiling(measured: Measured) -> list[str]:
    """Warns if other processes ran while the ceiling was measured."""
    if not measured.config.measure.ceiling:
        return []
    found = [each for of_rank in read_measurements(measured).values() for each in of_rank]
    disturbed = [each for each in found if each.is_disturbed]
    if not disturbed:
        return []
    members = name_members([str(member) for member in sorted({each.member for each in disturbed})])
    when = " and ".join(sorted({each.phase for each in disturbed}, reverse=True))
    rounds = [one for each in found for one in each.rounds]
    return [
        f"other processes took up to {max(each.most_of_others for each in disturbed):.2g} cores of {members} "
        f"while the ceiling was measured {when} training; {sum(one.is_disturbed for one in rounds)} of {len(rounds)} "
        "rounds were left out. Measure on a quieter machine."
    ]


def share_of_others(metrics: Mapping[str, Metric]) -> dict[int, float]:
    """Returns the share of its core time that other processes took, per member on its most loaded node, if known."""
    utilisation = metrics.get("cpu_utilisation")
    nodes = ((utilisation.detail if utilisation else None) or {}).get("nodes", [])
    others: dict[int, float] = {}
    for node in nodes:
        if node["total"] is not None:
            share = node["total"] - node["own"] + node["steal"]
            others[node["member"]] = max(share, others.get(node["member"], 0.0))
    return others


def others_on_cores(metrics: dict[str, Metric]) -> list[str]:
    """Warns if other processes ran on the members' cores."""
    others = share_of_others(metrics)
    disturbed = [str(member) for member, share in others.items() if share > MAX_OTHERS]
    if not disturbed:
        return []
    return [
        f"other processes took up to {max(others.values()):.0%} of the core time of {name_members(disturbed)}. "
        "Measure on a quieter machine, or give members exclusive cores."
    ]
