"""`hybrid` (TF-HPC Fig. 17–19): all processes × threads that fill a node, as ranks of one model or as members."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainmark.report.drawing import Figure, Plot, Reference
from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.table import Cell, Table
from trainmark.spec.units import counted
from trainmark.studies.axes import divisors, fixed
from trainmark.studies.outcomes import Outcomes, PointOutcomes
from trainmark.studies.point import Point
from trainmark.studies.study import Axis, Request, Study
from trainmark.studies.tables import Measure, best_row, build_table, curve, figure, metric, number, ratio
from trainmark.studies.verdict import CANNOT_TELL, between, find_best, judged

SPEED = "throughput_samples_per_s"
MODES = {"ranks": "ranks of one model", "members": "members of an ensemble"}
RULES = ("fixed", "scaled")


def batch_per_process(batch: int, processes: int, rule: str) -> int:
    """Returns `batch` itself (fixed), or its share, rounded down, so that all processes together keep it (scaled)."""
    # Table 11, ResNet-50: 512 on 1 process are 21 on each of 24 and 10 on each of 48.
    return batch // processes if rule == "scaled" else batch


def _points(request: Request) -> list[Point]:
    processes, modes, interop, batches, rules = (axis.values(request) for axis in HYBRID.axes)
    cores = request.cores_per_node
    for value in processes:
        if value not in divisors(cores):
            allowed = f"{', '.join(map(str, divisors(cores)))} so that they share {counted(cores, 'core')} evenly"
            raise ConfigError(f"--processes takes {allowed}, but got {value}.")
    return [
        _point(cores, {"processes": p, "interop": i, "batch": b, **way})
        for b in batches
        for i in interop
        for p in processes
        # One process is the same in every mode and by every rule: it runs once.
        for way in ([{}] if p == 1 else [{"mode": m, "batch_rule": r} for m in modes for r in rules])
    ]


def _point(cores: int, at: Mapping[str, Setting]) -> Point:
    processes, batch = int(at["processes"]), _batch_per_process(at)
    threads = cores // processes
    members, workers = (processes, 1) if at.get("mode") == "members" else (1, processes)
    return Point(
        at={"processes": processes, "threads": threads, **at},
        settings={
            "ensemble.members": members,
            "ensemble.workers": workers,
            "launch.threads": threads,
            "launch.interop_threads": at["interop"],
            "train.batch_size": batch,
            # Speed alone counts here: a rate that grows with the processes could make the loss diverge.
            "train.reference_batch_size": batch * workers,
        },
        slot_cores=threads,
    )


def _batch_per_process(at: Mapping[str, Setting]) -> int:
    return batch_per_process(int(at["batch"]), int(at["processes"]), str(at.get("batch_rule", "fixed")))


def best_single(outcomes: Outcomes) -> PointOutcomes | None:
    """Returns the fastest point of one process with all cores."""
    return replace(outcomes, points=tuple(outcomes.where(processes=1))).best(SPEED)


def _analyse(outcomes: Outcomes) -> Table:
    base = best_single(outcomes)
    measures = [
        metric(SPEED),
        Measure("batch_per_process", "", "batch per process", lambda point: float(_batch_per_process(point.at))),
        ratio("speedup", SPEED, lambda point: base, "over best single process"),
        metric("step_time_s"),
    ]
    modes = dict.fromkeys(str(point.at["mode"]) for point in outcomes.points if "mode" in point.at)
    return build_table(outcomes, measures, [_finding(outcomes, mode, base) for mode in modes])


def _finding(outcomes: Outcomes, mode: str, base: PointOutcomes | None) -> str | None:
    """The best configuration of a mode, and how it compares to one process with all cores."""
    points = outcomes.where(mode=mode)
    best = replace(outcomes, points=tuple(points)).best(SPEED)
    speed = best and best.summary(SPEED)
    if not best or not speed:
        return None
    found = find_best(points, SPEED)
    what = f"{_described(best.at)} with {speed.value:.4g} samples/s"
    if found is None:  # there is nothing to choose from, or not yet
        what = f"as {MODES[mode]}: {what}"
    elif found.is_clear:
        what = f"best as {MODES[mode]}: {what}"
    else:
        rival = f"{found.lead} that of {_described(found.rival.at)}"
        what = f"{CANNOT_TELL} the best as {MODES[mode]}: {what}, {rival}"
    over = best.ratio(base, SPEED) if base else None
    if over is None:
        return what
    return f"{what}, {between(over)} times the best 1 × {_cores(best.at)}: {judged(over, 1, 'faster', 'slower')}"


def _described(row: Mapping[str, Any]) -> str:
    return f"{_name(row)} (batch {_batch_per_process(row)} per process, inter-op threads: {row['interop']})"


def _name(row: Mapping[str, Cell]) -> str:
    return f"{row['processes']} × {row['threads']}"


def _cores(row: Mapping[str, Any]) -> int:
    return int(row["processes"] or 0) * int(row["threads"] or 0)


def _figures(table: Table) -> list[Figure]:
    modes: list[Cell] = table.values("mode") or [None]
    found = []
    for interop in table.values("interop"):
        text = f"Throughput of all processes × threads that fill the cores of a node; inter-op threads: {interop}"
        plots = [_plot(table, mode, interop) for mode in modes]
        found.append(figure(table, f"hybrid-interop-{interop}", "Processes × threads", text, plots))
    return found


def _plot(table: Table, mode: Cell, interop: Cell) -> Plot:
    rules: list[Cell] = table.values("batch_rule") or [None]
    drawn = [
        curve(_label(batch, rule), _rows(table, mode, rule, interop=interop, batch=batch), "processes", SPEED)
        for rule in rules
        for batch in table.values("batch")
    ]
    single = best_row(table, SPEED, processes=1)
    cores = _cores(table.rows[0])
    level = [Reference(f"best 1 × {cores}", number(single, SPEED) or 0.0)] if single else []
    top = max((high for row in table.rows if (high := number(row, f"{SPEED}_high")) is not None), default=1.0)
    return Plot(
        MODES.get(str(mode), "one process"),
        f"processes (× threads = {cores} cores)",
        "samples/s",
        tuple(each for each in drawn if each),
        tuple(level),
        x_scale="log2",
        y_range=(0, 1.08 * top),  # one scale for all modes
    )


def _rows(table: Table, mode: Cell, rule: Cell, **fixed_values: Cell) -> list[dict[str, Cell]]:
    """The rows of a mode and rule, and that of one process, which belongs to all."""
    return [
        row
        for row in table.where(**fixed_values)
        if row["processes"] == 1 or (row.get("mode"), row.get("batch_rule")) == (mode, rule)
    ]


def _label(batch: Cell, rule: Cell) -> str:
    return f"batch {batch} / processes" if rule == "scaled" else f"batch {batch} per process"


HYBRID = Study(
    name="hybrid",
    title="Processes × threads",
    description="throughput of all processes × threads that fill a node, as ranks or as members; the best one",
    documents="TF-HPC Fig. 17–19, Tables 11–12",
    axes=(
        Axis("processes", "processes that share the cores of a node", lambda r: divisors(r.cores_per_node)),
        Axis(
            "mode", "ranks (of one model) or members (of an ensemble)", fixed(*MODES), kind=str, choices=lambda: MODES
        ),
        Axis("interop", "inter-op threads", fixed(1), setting="launch.interop_threads"),
        Axis(
            "batch",
            "samples per step of a single process",
            lambda r: [128] if r.base.size == "tiny" else [512],
            setting="train.batch_size",
        ),
        Axis(
            "batch-rule",
            "scaled (batch / processes) or fixed (batch per process)",
            fixed("scaled"),
            kind=str,
            choices=lambda: RULES,
        ),
    ),
    points=_points,
    analyse=_analyse,
    figures=_figures,
    settings={
        "": {"measure.ceiling": False, "evaluate.out_of_bag": False, "dataset": "synthetic"},
        "tiny": {"train.steps": 40},
        # As many images as ImageNet has: 256 on each of 64 processes are more than synthetic data have by default.
        "full": {"train.minutes": 10.0, "train.augmentation": "none", "data.num_train": 1_281_167},
    },
    repeats=5,
    max_spread=0.10,
)
