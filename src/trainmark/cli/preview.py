"""What `trainmark run` prints before it starts, and with --dry-run."""

from contextlib import suppress
from dataclasses import asdict

from rich.console import Console

from trainmark.cli.output import print_json
from trainmark.pipeline import PlannedRun, preview
from trainmark.report.console import progress_console, result_console
from trainmark.report.plan_text import estimate_lines, plan_line, plan_table
from trainmark.spec.config_file import config_text
from trainmark.spec.plan import advise_on_idle, job_as_json, plan_figures

# Members whose scripts a dry run shows.
MAX_MEMBERS = 4
MAX_MEMBERS_AS_JSON = 100


def announce(planned: PlannedRun) -> None:
    """Prints the plan on standard error before a run; a closed stream must not stop the run."""
    with suppress(OSError, SystemExit):  # rich exits on a broken pipe
        print_plan(planned, progress_console())


def print_plan(planned: PlannedRun, console: Console) -> None:
    """Prints scale, idle slots, and estimates of time and memory."""
    plan = planned.plan
    advice = advise_on_idle(plan)
    idle = [] if advice is None else [f"! {advice}"]
    for line in (plan_line(plan), *idle, *estimate_lines(planned.estimate, planned.config, plan)):
        console.print(
            line, style="yellow" if line.startswith("!") else None, soft_wrap=True, markup=False, highlight=False
        )


def print_preview(planned: PlannedRun, *, as_json: bool) -> None:
    """Prints what a run would do, limited to the first members of a large ensemble."""
    config, plan = planned.config, planned.plan
    most = MAX_MEMBERS_AS_JSON if as_json else MAX_MEMBERS
    scripts, more = preview(planned, most), max(0, plan.members - most)
    if as_json:
        mapping = [job_as_json(job) for job in plan.jobs[:MAX_MEMBERS_AS_JSON]]
        print_json(
            {
                "config": config.model_dump(exclude_none=True),
                "plan": {**plan_figures(plan), "mapping": mapping},
                "scripts": scripts,
                "members_left_out": more,
                "estimate": asdict(planned.estimate),
            }
        )
        return
    console = result_console()
    print_plan(planned, console)
    console.print(plan_table(plan))
    console.print("\nconfig.toml", style="bold")
    if console.is_terminal:
        from rich.syntax import Syntax  # slow to load

        console.print(Syntax(config_text(config), "toml", background_color="default"))
    else:
        console.print(config_text(config), markup=False)
    for name, script in scripts.items():
        console.print(name, style="bold")
        print(script)
    if more:
        console.print(f"… and similar scripts of {more:,} more members")
