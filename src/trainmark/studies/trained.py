"""What the runs of a study trained, what that took, and the command that repeats the study."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainmark.plan.explain import Source
from trainmark.plan.resolve import resolve_config
from trainmark.spec.config import RunChoices, RunConfig
from trainmark.spec.length import length_setting
from trainmark.spec.result import Result
from trainmark.spec.table import Table
from trainmark.spec.units import counted, show_duration
from trainmark.studies.record import StudyRecord
from trainmark.studies.study import Values, flat

FLAGS = {"workload": "--workload", "size": "--size", "launch.launcher": "--launcher"}
MAX_NAMED = 3  # different values in a caption
UNITS = {"train.epochs": "epoch", "train.steps": "step", "train.minutes": "minute"}

Config = RunChoices | RunConfig


def length_of(config: Config) -> str:
    """`40 steps`."""
    name = length_setting(config.train)
    value = flat(config.model_dump())[name]
    return counted(value, UNITS[name])


# What a run trains; what differs between the points of a study is a list.
PARTS: Mapping[str, Callable[[Config], Any]] = {
    "workload": lambda config: config.workload,
    "size": lambda config: config.size,
    "model": lambda config: config.model,
    "dataset": lambda config: config.dataset,
    "precision": lambda config: config.train.precision,
    "batch_per_worker": lambda config: config.train.batch_size * config.train.accumulation,
    "length": length_of,
    "seed": lambda config: config.seed,
}


def describe(table: Table, record: StudyRecord, results: Sequence[Result]) -> Table:
    """Returns the table with what was trained, what it took and the command, of which the caption has the first two."""
    configs: list[Config] = [result.config for result in results]
    configs = configs or [resolve_config([Source("the study", record.base)])]
    found: dict[str, Any] = {}
    for name, part in PARTS.items():
        values = [value for value in dict.fromkeys(map(part, configs)) if value is not None]
        found |= {name: values[0] if len(values) == 1 else values} if values else {}
    took = cost_of(results)
    seconds = {"training_seconds": took[0], "node_hours": took[1]} if took else {}
    command = {"command": record.command} if record.command else {}
    caption = "; ".join(part for part in (_in_words(found), cost_text(results), table.caption) if part)
    trained = {**found, **seconds, **command, "code_version": record.code_version}
    return table.model_copy(update={"trained": trained, "caption": caption})


def _in_words(found: Mapping[str, Any]) -> str:
    """`image-classification (tiny): resnet-tiny on shapes, 6 epochs`."""
    workload, size, model, dataset, length = (
        named(found[name]) for name in ("workload", "size", "model", "dataset", "length")
    )
    return f"{workload} ({size}): {model} on {dataset}, {length}"


def named(values: Any) -> str:
    """`32`, or `32, 64, 128 and 4 others`."""
    if not isinstance(values, list):
        return str(values)
    rest = [f"{len(values) - MAX_NAMED} others"] if len(values) > MAX_NAMED else []
    return " and ".join([", ".join(map(str, values[:MAX_NAMED])), *rest])


def cost_of(results: Sequence[Result]) -> tuple[float, float] | None:
    """Returns the seconds that all runs trained, and their node-hours; None if no run has a time."""
    times = [
        (time.value, len({node for job in result.plan.first_jobs for node in job.nodes}))
        for result in results
        if (time := result.metrics.get("time_to_train_all_s")) and time.value is not None
    ]
    return (sum(s for s, _ in times), sum(s * nodes for s, nodes in times) / 3600) if times else None


def cost_text(results: Sequence[Result]) -> str | None:
    """`8 runs trained for 1 min 46 s in all, 0.029 node-hours`."""
    took = cost_of(results)
    if took is None:
        return None
    return f"{counted(len(results), 'run')} trained for {show_duration(took[0])} in all, {took[1]:.2g} node-hours"


def command_of(
    study: str,
    sources: Sequence[Source],
    axes: Mapping[str, Values],
    options: Mapping[str, object],
) -> str:
    """Returns the command that repeats a study: what the user chose, and the options that have a value."""
    words = ["trainmark", "study", study]
    for name, values in axes.items():
        words += [f"--{name}", ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)]
    for source in sources:
        for name, value in flat(source.values).items():
            words += [FLAGS[name], str(value)] if name in FLAGS else ["--set", f"{name}={_as_set(value)}"]
    for name, option in options.items():
        if option is True:
            words.append(f"--{name}")
        elif option is not None and option is not False:
            words += [f"--{name}", str(option)]
    return shlex.join(words)


def _as_set(value: Any) -> str:
    """A value as `--set` takes it: plain text, or TOML, of which JSON's numbers, booleans and lists are a part."""
    return value if isinstance(value, str) else json.dumps(value)
