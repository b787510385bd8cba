"""What spoils figures of speed: warm-up in short runs, a ceiling that training exceeds, and the load of others."""

from trainmark.collect.measured import Measured
from trainmark.collect.metrics.ceiling import REPORT, read_measurements
from trainmark.collect.metrics.flops import NEGLIGIBLE
from trainmark.spec.result import Metric
from trainmark.spec.units import show_duration

MOST_OF_OTHERS = 0.1  # of the time of a member's cores; below it are the system's own tasks and the kernel's ticks


def name_members(numbers: list[str]) -> str:
    """`member 3`, `members 3, 5`."""
    return f"member{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def warm_up_in_flops(metrics: dict[str, Metric]) -> list[str]:
    """FLOPS of a run so short that warm-up counts."""
    found = metrics["flops_steady"].detail
    if found is None or abs(1 - found["whole_training_share"]) <= NEGLIGIBLE:
        return []
    share = found["whole_training_share"]
    if share > 1:
        return [f"FLOPS over the whole training are {share - 1:.0%} above those of settled steps: steps became slower"]
    text = f"FLOPS over the whole training are {1 - share:.0%} below those of settled steps"
    epochs = found["epochs_until_negligible"]
    if epochs is None:
        return [f"{text}: {show_duration(found['between_steps_s'])} of each epoch pass between steps"]
    lasts_s = found["warmup_s"] + epochs * (found["epoch_s"] + found["between_steps_s"])
    return [
        f"{text}: warm-up took {show_duration(found['warmup_s'])} of {show_duration(found['training_s'])}. They agree "
        f"within {NEGLIGIBLE:.0%} after about {show_duration(lasts_s)} of training: --set train.epochs={epochs}"
    ]


def above_ceiling(metrics: dict[str, Metric]) -> list[str]:
    """Training that was faster than the ceiling."""
    reason = metrics["ceiling_flops"].reason or ""
    return [reason] if REPORT in reason else []


def disturbed_ceiling(measured: Measured) -> list[str]:
    """A ceiling that was measured beside other processes."""
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


def others_on_cores(metrics: dict[str, Metric]) -> list[str]:
    """Training beside other processes."""
    nodes = (metrics["cpu_utilisation"].detail or {}).get("nodes", [])
    others: dict[int, float] = {}  # of each member, on the node where it was most
    for node in nodes:
        if node["total"] is not None:
            share = node["total"] - node["own"] + node["steal"]
            others[node["member"]] = max(share, others.get(node["member"], 0.0))
    disturbed = [str(member) for member, share in others.items() if share > MOST_OF_OTHERS]
    if not disturbed:
        return []
    return [
        f"other processes took up to {max(others.values()):.0%} of the time of the cores of {name_members(disturbed)}. "
        "Measure on a quieter machine, or give members cores of their own."
    ]
