"""`trainmark preflight`: checks that runs work on a cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, RunsDir

if TYPE_CHECKING:
    from trainmark.spec.config import RunChoices
    from trainmark.spec.site import Site

PATIENCE_MINUTES = 10.0


def preflight(
    site: Annotated[Path, typer.Option(help="TOML file that describes the cluster.")],
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    patience: Annotated[float, typer.Option(help="Minutes to wait for the small jobs.", min=0.1)] = PATIENCE_MINUTES,
    json: AsJson = False,
) -> None:
    """Check with a small job per node group that runs work there.

    \b
    Examples:
      trainmark preflight --site site.toml
      trainmark preflight --site site.toml --runs-dir /shared/runs --patience 60
    """
    from trainmark.plan.resolve import read_site_file

    run_preflight(read_site_file(site), runs_dir, patience * 60, as_json=json)


def preflight_before_run(config: "RunChoices", site: "Site", runs_dir: Path) -> None:
    """Prints findings on standard error before a run; raises on a problem."""
    from trainmark.spec.errors import ConfigError

    if config.launch.launcher != "slurm":
        raise ConfigError(f"--preflight needs --launcher slurm, but got {config.launch.launcher}. Remove --preflight.")
    run_preflight(site, runs_dir, PATIENCE_MINUTES * 60, config.launch.python, on_error_stream=True)


def run_preflight(
    site: "Site",
    runs_dir: Path,
    patience_s: float,
    python: str | None = None,
    *,
    as_json: bool = False,
    on_error_stream: bool = False,
) -> None:
    """Prints all findings; raises if one of them is a problem."""
    from dataclasses import asdict

    from trainmark.cli.output import print_json
    from trainmark.launch.slurm.preflight import preflight as check_cluster
    from trainmark.report.console import progress_console, result_console
    from trainmark.report.machine_text import findings_table
    from trainmark.spec.errors import RunFailedError
    from trainmark.spec.units import counted
    from trainmark.store.new_run import check_runs_dir

    check_runs_dir(runs_dir)
    progress = progress_console()
    findings = check_cluster(site, runs_dir, patience_s, lambda text: progress.print(text, markup=False), python)
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        (progress if on_error_stream else result_console()).print(findings_table(findings))
    problems = [finding for finding in findings if finding.verdict == "problem"]
    if problems:
        first = problems[0]
        raise RunFailedError(
            f"{counted(len(problems), 'problem')}, the first: {first.what}: {first.found}. {first.fix}"
        )
