"""A Plan as people read it before anything starts."""

from rich.table import Table

from trainmark.spec.plan import Plan
from trainmark.spec.units import show_cores

MOST_ROWS = 20


def plan_line(plan: Plan) -> str:
    """Eq. 5 with this plan's figures, and how it fits the site."""
    return (
        f"{plan.members} members × {plan.workers_per_member} workers = system scale {plan.system_scale}; "
        f"{plan.lanes} members at a time on site {plan.site}, {plan.waves} wave(s), {plan.idle_slots} idle slot(s)"
    )


def plan_table(plan: Plan) -> Table:
    """Each member's nodes and cores."""
    table = Table("member", "rank", "node", "cores", "accelerator", box=None)
    rows = 0
    for job in plan.jobs:
        for rank in job.ranks:
            if rows == MOST_ROWS:
                table.add_row("…", "", "", "", "")
                return table
            device = "" if rank.accelerator is None else str(rank.accelerator)
            table.add_row(str(job.member), str(rank.rank), rank.node, show_cores(rank.cores), device)
            rows += 1
    return table
