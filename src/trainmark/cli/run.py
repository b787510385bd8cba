"""`trainmark run`: plan, stage, launch, train, collect, store, show."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainmark.cli.options import DEFAULT_RUNS_DIR, AsJson, DataDir, RunsDir

if TYPE_CHECKING:
    from trainmark.spec.config import RunChoices

EXAMPLES = """Examples:
  # the default: a tiny ensemble on all cores
  trainmark run
  # eight base models, queued on this machine's slots
  trainmark run --members 8
  # one base model on two workers, data-parallel
  trainmark run --members 1 --workers 2
  # storm detectors, fused into an ensemble
  trainmark run extreme-weather --members 2
  # any setting by name; the Result as JSON
  trainmark run --set train.epochs=2 --json
  # the same run again
  trainmark run --config runs/ID/config.toml
  # plan and commands only; writes nothing
  trainmark run --members 4 --dry-run
  # members as Slurm jobs
  trainmark run --launcher slurm --site site.toml --members 16
"""


def run(
    workload: Annotated[str | None, typer.Argument(help="What to train: see `trainmark list workloads`.")] = None,
    size: Annotated[
        str | None, typer.Option(help="Size of the workload: tiny (default), full, or another that it defines.")
    ] = None,
    members: Annotated[int | None, typer.Option(help="Base models in the ensemble (M).")] = None,
    workers: Annotated[int | None, typer.Option(help="Workers per member (P).")] = None,
    system_scale: Annotated[int | None, typer.Option(help="Total workers; must be members × workers.")] = None,
    launcher: Annotated[str | None, typer.Option(help="How jobs are started: see `trainmark list launchers`.")] = None,
    site: Annotated[
        Path | None, typer.Option(help="TOML file that describes nodes and slots; default: this machine.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. train.epochs=3.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings, e.g. a stored run's config.toml.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of bootstrap, initial weights and shuffling.")] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show plan and job scripts; write nothing.")] = False,
    preflight: Annotated[
        bool, typer.Option("--preflight", help="First check with a small job that runs work on the cluster.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Train a bagging ensemble and report FLOPS and VFLOPS."""
    from trainmark import pipeline
    from trainmark.cli.output import bootstrap_progress, data_progress, end_with_result, live_progress
    from trainmark.cli.preflight import preflight_before_run
    from trainmark.cli.preview import announce, print_preview
    from trainmark.machine.local_site import local_site
    from trainmark.plan.resolve import read_site_file
    from trainmark.spec.run_folder import Places

    resolved = _resolve(
        config,
        setting or [],
        workload=workload,
        size=size,
        seed=seed,
        ensemble=given(members=members, workers=workers, system_scale=system_scale),
        launch=given(launcher=launcher),
    )
    place = read_site_file(site) if site else local_site()
    planned = pipeline.plan_run(resolved, place, Places.of(runs_dir, data_dir), dry_run=dry_run)
    if dry_run:
        print_preview(planned, as_json=json)
        return
    if preflight:
        preflight_before_run(resolved, place, runs_dir)
    announce(planned)
    with live_progress() as watch:
        result = pipeline.run(planned, watch, data_progress(), bootstrap_progress())
    end_with_result(result, (runs_dir / result.run_id).resolve(), as_json=json)


run.__doc__ = f"{run.__doc__}\n\n\b\n{EXAMPLES}"


def _resolve(config: Path | None, settings: list[str], **flags: Any) -> "RunChoices":
    """Merges all choices; --set wins over flags, flags over the file."""
    from trainmark.plan.explain import COMMAND_LINE, Source
    from trainmark.plan.resolve import parse_setting, read_config_file, resolve_config

    choices = [read_config_file(config)] if config else []
    choices.append(Source(COMMAND_LINE, given(**flags)))
    choices.extend(parse_setting(text) for text in settings)
    return resolve_config(choices)


def given(**flags: Any) -> dict[str, Any]:
    """Returns the flags that were set."""
    return {name: value for name, value in flags.items() if value is not None and value != {}}
