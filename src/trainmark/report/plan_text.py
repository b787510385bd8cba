"""A Plan as people read it before anything starts."""

from rich.table import Table

from trainmark.spec.plan import Plan, plan_figures
from trainmark.spec.plan_text import describe_scale, describe_slots
from trainmark.spec.units import counted, show_cores

MOST_ROWS = 20


def plan_line(plan: Plan) -> str:
    """Eq. 5 with this plan's figures, and how it fits the site."""
    at_a_time = f"{counted(plan.lanes, 'member')} at a time, {counted(plan.waves, 'wave')}"
    figures = plan_figures(plan)
    return f"{describe_scale(figures)}; {at_a_time}; site {plan.site}: {describe_slots(figures)}"


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
