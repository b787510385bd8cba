"""Metrics of a run or of one member: each has its value, or is unavailable with the reason, whatever the others do."""

import sys
from collections.abc import Iterable
from typing import Any

from trainmark.collect.counted import Counted
from trainmark.collect.measured import Measured
from trainmark.spec.files import one_line
from trainmark.spec.registries import METRICS
from trainmark.spec.result import Metric, unavailable


def compute_metrics(measured: Measured, names: Iterable[str]) -> dict[str, Metric]:
    """The metrics by name."""
    counted: dict[str, Counted] = {}
    return {name: _compute(name, measured, counted) for name in names}


def _compute(name: str, measured: Measured, counted: dict[str, Counted]) -> Metric:
    module: Any = None
    try:
        compute = METRICS.load(name)
        module = sys.modules[compute.__module__]
        needs = getattr(module, "NEEDS", "steps")
        members = counted.setdefault(needs, Counted(measured, needs))
        if members.reason is not None:
            return _unavailable(module, members.reason)
        return _with_remarks(compute(members.view), members)
    except Exception as error:  # noqa: BLE001  one figure that cannot be computed costs no other
        return _unavailable(module, f"it cannot be computed: {one_line(error)}")


def _unavailable(module: Any, reason: str) -> Metric:
    return unavailable(getattr(module, "UNIT", ""), getattr(module, "BETTER", "neither"), reason)


def _with_remarks(metric: Metric, members: Counted) -> Metric:
    """The metric, with what a reader must know of the members that it is made of, and of those that it is not."""
    if metric.value is None:
        return metric.model_copy(update={"reason": members.reason_so_far(metric.reason)})
    remarks: dict[str, Any] = {}
    if not members.measured.is_over:
        remarks["so_far"] = {"members": len(members.view.finished), "of_members": len(members.measured.members)}
    if members.lost:
        remarks["left_out"] = members.left_out
    return metric.model_copy(update={"detail": {**(metric.detail or {}), **remarks}}) if remarks else metric
