"""A plan's figures in words: Eq. 5, the slots and cores in use, and what stays idle; `plan` is as in result.json."""

from collections.abc import Mapping
from typing import Any

from trainmark.spec.units import counted

Figures = Mapping[str, Any]


def describe_scale(plan: Figures) -> str:
    """`2 members × 1 worker = system scale 2`: Eq. 5 with the plan's figures."""
    members, workers = counted(plan["members"], "member"), counted(plan["workers_per_member"], "worker")
    return f"{members} × {workers} = system scale {plan['system_scale']:,}"


def describe_slots(plan: Figures) -> str:
    """`1 of 2 worker slots used, all 2 cores`."""
    used = f"{_workers_at_a_time(plan):,} of {counted(_slots(plan), 'worker slot')} used"
    return f"{used}, {_cores(plan)}" if plan.get("cores") else used


def advise_on_idle(plan: Figures) -> str | None:
    """What stays idle, and how to use it; None where nothing does."""
    idle, slots = plan["idle_slots"], _slots(plan)
    if not idle:
        return None
    cores = f": workers have {_cores(plan)}" if plan.get("cores") else ""
    return (
        f"{idle:,} of {counted(slots, 'worker slot')} {'stays' if idle == 1 else 'stay'} idle{cores}. "
        f"To use all, choose --members and --workers whose product is {slots}."
    )


def _workers_at_a_time(plan: Figures) -> int:
    return int(plan["lanes"] * plan["workers_per_member"])


def _slots(plan: Figures) -> int:
    """Those of the site; older run folders tell only how many stayed idle, and nothing of cores."""
    return int(plan.get("slots", _workers_at_a_time(plan) + plan.get("idle_slots", 0)))


def _cores(plan: Figures) -> str:
    cores = counted(plan["cores"], "core")
    return f"all {cores}" if plan["cores_used"] == plan["cores"] else f"{plan['cores_used']:,} of {cores}"
