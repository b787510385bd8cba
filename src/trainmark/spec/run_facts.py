"""Facts of a run by name: columns, metrics, settings, machine and software, for lists, filters and groups."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from trainmark.spec.config import RunConfig
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Result
from trainmark.spec.stored_run import leaves
from trainmark.spec.tags import RunTags

Facts = dict[str, Any]
Row = dict[str, Any]  # what a list shows of a run: its place, columns, and the facts that were asked for

UNREADABLE = "unreadable"
STATES = ("complete", "partial", "failed", "unfinished", UNREADABLE)
PLACE = ("run_id", "path")
COLUMNS = (
    *("state", "started_at", "workload", "size", "model", "dataset", "precision"),
    *("members", "workers", "system_scale", "members_finished", "study", "tags", "note", "reason", "damage"),
)
# What a list shows unless told otherwise: the index has these at hand. A change needs a new schema of the index.
OFTEN_ASKED = (
    *COLUMNS,
    *("throughput_samples_per_s", "flops", "flops_share_of_ceiling", "quality_ensemble", "vflops"),
    "time_to_train_all_s",
)
ALIASES = {"tag": "tags", "run": "run_id"}
MAX_TEXT = 200  # characters; a longer text, such as torch's build, is not listed


def facts_of(result: Result, tags: RunTags) -> Facts:
    """Returns every fact of a run that has a Result; columns come first, as they are asked for most."""
    config, plan = result.config, result.plan
    columns = {
        "state": result.state,
        "started_at": result.started_at,
        "workload": result.workload,
        "size": result.size,
        "model": config.model,
        "dataset": config.dataset,
        "precision": config.train.precision,
        "members": plan.members,
        "workers": plan.workers_per_member,
        "system_scale": plan.system_scale,
        "members_finished": sum(member.state == "finished" for member in result.members),
        "study": (result.provenance.get("study") or {}).get("study_id"),
        "tags": list(tags.tags),
        "note": tags.note,
        "reason": _reason(result),
        "damage": result.damage,
    }
    metrics = {name: metric.value for name, metric in result.metrics.items() if metric.value is not None}
    records = {"": config.model_dump(exclude_none=True), "machine": result.machine, "software": result.software}
    others = {name: value for prefix, record in records.items() for name, value in _plain_leaves(record, prefix)}
    return columns | metrics | {name: value for name, value in others.items() if name not in columns}


def facts_without_result(reason: str, tags: RunTags) -> Facts:
    """Returns the facts of a run of which no Result can be read or made."""
    return {"state": UNREADABLE, "tags": list(tags.tags), "note": tags.note, "reason": reason, "damage": [reason]}


def _reason(result: Result) -> str | None:
    """Returns why a run is not complete, by its first member that has not finished."""
    first = next((member for member in result.members if member.state != "finished"), None)
    return None if first is None else f"member {first.member} {first.state}: {first.reason or 'no reason was recorded'}"


def _plain_leaves(record: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in leaves(record, prefix):
        is_number = isinstance(value, int | float) and math.isfinite(value)
        if is_number or (isinstance(value, str) and len(value) <= MAX_TEXT):
            yield name, value


def row_of(run_id: str, path: str, values: Iterable[Any], names: Iterable[str]) -> Row:
    """Returns a run as a flat record; `values` are those of COLUMNS and of further names."""
    return {"run_id": run_id, "path": path, **dict(zip(names, values, strict=True))}


def known_names() -> set[str]:
    """Returns the names that a condition may use whatever is stored; settings of datasets are known by the runs."""
    return {*PLACE, *COLUMNS, *ALIASES, *METRICS, *_settings(RunConfig)}


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
