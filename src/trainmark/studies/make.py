"""Makes a study: resolves the axes, plans every point, and orders the repeats, before anything is written."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainmark import pipeline
from trainmark.machine.software import code_version
from trainmark.machine.stop import stoppable
from trainmark.machine.storage import is_disk_full
from trainmark.plan.explain import Source
from trainmark.plan.resolve import merged_values, resolve_config
from trainmark.plan.slots import with_slots_of
from trainmark.spec.config import Setting
from trainmark.spec.config_file import site_text
from trainmark.spec.errors import ConfigError, PlanError, StorageError, TrainmarkError, UnknownNameError
from trainmark.spec.files import write_text
from trainmark.spec.registries import DATASETS
from trainmark.spec.run_folder import Places
from trainmark.spec.site import Site
from trainmark.spec.units import show_bytes
from trainmark.store.new_run import check_runs_dir
from trainmark.studies.outcomes import OUT_OF_MEMORY
from trainmark.studies.point import Point
from trainmark.studies.record import (
    MAX_RUNS,
    RESUME,
    PlannedPoint,
    PlannedStudyRun,
    StudyFolder,
    StudyRecord,
    new_study_id,
    run_id_of,
    studies_dir,
    write_record,
)
from trainmark.studies.study import LENGTHS, Request, Study, Values, flat, nested
from trainmark.studies.trained import command_of


class Asked(NamedTuple):
    """The command line of a study."""

    sources: Sequence[Source] = ()  # workload, size, launcher, --set
    axes: Mapping[str, Values] = {}
    repeats: int | None = None  # None: the study's
    seed: int = 1
    is_smallest: bool = False
    site_file: str | None = None  # None: this machine


def make_study(study: Study, asked: Asked, site: Site, places: Places) -> StudyRecord:
    """Returns the record of a study whose points are planned; raises if none of them can run. Writes nothing."""
    check_runs_dir(places.runs)
    _refuse_axes_as_settings(study, asked)
    size = str(merged_values(asked.sources).get("size", "tiny"))
    own = _without_length(study.overrides(size, is_smallest=asked.is_smallest), asked)
    sources = [Source(f"the study {study.name}", nested(own)), *asked.sources]
    for name in asked.axes:
        _ = study.axis(name)
    request = Request(site, resolve_config(sources), asked.axes, asked.is_smallest)
    points = study.points(request)
    _refuse_ignored_settings(study, request, sources, points)
    repeats = asked.repeats or (1 if asked.is_smallest else study.repeats)
    if len(points) * repeats > MAX_RUNS:
        raise ConfigError(f"{len(points):,} points × {repeats} repeats are more than {MAX_RUNS:,} runs. Choose fewer.")
    now = datetime.now(UTC)
    record = StudyRecord(
        study_id=new_study_id(study.name, now),
        study=study.name,
        started_at=now.isoformat(timespec="seconds"),
        code_version=code_version(),
        command=_command(study, asked, places, repeats),
        repeats=repeats,
        seed=asked.seed,
        max_spread=study.max_spread,
        axes={axis.name: axis.values(request) for axis in study.axes},
        base=merged_values(sources),
        is_smallest=asked.is_smallest,
        data_dir=None if places == Places.of(places.runs) else str(places.data),
        most_more=study.most_more(request) * repeats,
    )
    record = with_points(record, points, site, places)
    record = record.model_copy(update={"runs_at_start": len(record.runs)})
    if points and not record.runs:
        raise PlanError(f"No point of the study {study.name} can run. {record.points[0].refused}")
    return record


def _command(study: Study, asked: Asked, places: Places, repeats: int) -> str:
    options = {
        "site": asked.site_file,
        "smallest": asked.is_smallest,
        "repeats": repeats,
        "seed": asked.seed,
        "data-dir": None if places == Places.of(places.runs) else places.data,
    }
    return command_of(study.name, asked.sources, asked.axes, options)


def _refuse_axes_as_settings(study: Study, asked: Asked) -> None:
    """Raises if --set sets what an axis varies."""
    for axis in study.axes:
        for source in asked.sources:
            value = flat(source.values).get(axis.setting)
            if value is not None:
                raise ConfigError(
                    f"{axis.setting} is an axis of the study {study.name}. Choose its values with --{axis.name} "
                    f"{value} instead."
                )


def _without_length(own: Mapping[str, Setting], asked: Asked) -> dict[str, Setting]:
    """Returns the study's own settings; a length of training that the user chooses replaces theirs."""
    chosen = LENGTHS & flat(merged_values(asked.sources)).keys()
    return {name: value for name, value in own.items() if not (chosen and name in LENGTHS)}


def _refuse_ignored_settings(
    study: Study, request: Request, sources: Sequence[Source], points: Sequence[Point]
) -> None:
    """Raises if --set sets what all points set themselves, to another value, and no point depends on it."""
    own, *chosen = sources
    for name, value in flat(merged_values(chosen)).items():
        if name == "seed":
            raise ConfigError(f"seed differs from round to round. Choose the first with --seed {value}.")
        fixed = [point.settings.get(name) for point in points]
        if None in fixed or all(each == value for each in fixed):
            continue
        without = [own, *(Source(each.name, nested(_less(flat(each.values), name))) for each in chosen)]
        if study.points(replace(request, base=resolve_config(without))) == points:
            raise ConfigError(
                f"The study {study.name} sets {name} to {fixed[0]} itself: --set {name}={value} would change nothing."
            )


def _less(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def with_points(record: StudyRecord, points: Sequence[Point], site: Site, places: Places) -> StudyRecord:
    """Returns the record with more points, planned, and their repeats in rounds."""
    first = len(record.points)
    planned = [_planned(record, point, site, places) for point in points]
    can_run = [number for number, each in enumerate(planned, first) if each.refused is None]
    runs = [
        PlannedStudyRun(point=point, round=round_, run_id=run_id_of(record.study_id, point, round_))
        for round_ in range(1, record.repeats + 1)
        # Each round takes every point once, in an order of its own: drift hits all points alike.
        for point in np.random.default_rng([record.seed, round_, first]).permutation(can_run).tolist()
    ]
    return record.model_copy(update={"points": (*record.points, *planned), "runs": (*record.runs, *runs)})


def plan_point(
    record: StudyRecord, point: Point, round_: int, site: Site, places: Places, *, dry_run: bool
) -> pipeline.PlannedRun:
    """Plans one run; its seed is that of the round unless the point sets one."""
    settings: dict[str, Setting] = {"seed": record.seed + round_ - 1, **point.settings}
    base = _without_foreign_data(record.base, point)
    name = f"the study {record.study}"
    choices = resolve_config([Source(name, base), Source(name, nested(settings))])
    return pipeline.plan_run(choices, with_slots_of(site, point.slot_cores), places, dry_run=dry_run)


def _without_foreign_data(base: dict[str, Any], point: Point) -> dict[str, Any]:
    """Returns the base for a point with a dataset of its own, which need not have the settings of the others'."""
    dataset, data = point.settings.get("dataset"), base.get("data")
    if dataset is None or not isinstance(data, dict):
        return base
    known = DATASETS.load(str(dataset)).Settings.model_fields
    return {**base, "data": {name: value for name, value in data.items() if name in known}}


def _planned(record: StudyRecord, point: Point, site: Site, places: Places) -> PlannedPoint:
    """Plans the point once; one that cannot run is kept with the reason."""
    try:
        planned = plan_point(record, point, 1, site, places, dry_run=True)
    except (UnknownNameError, StorageError):  # a typo, or a disk that may have space tomorrow: no gap for good
        raise
    except TrainmarkError as error:
        return PlannedPoint(point=point, refused=str(error))
    on_slurm = planned.config.launch.launcher == "slurm"
    estimate, nodes = planned.estimate, {node for job in planned.plan.first_jobs for node in job.nodes}
    least = None if estimate.worker_bytes is None else estimate.worker_bytes.least * estimate.workers_at_a_time
    refused = None
    if least is not None and estimate.available_bytes is not None and least > estimate.available_bytes:
        refused = (
            f"would run {OUT_OF_MEMORY}: needs at least {show_bytes(least)}, "
            f"but {show_bytes(estimate.available_bytes)} are available"
        )
    minutes = planned.config.launch.time_limit_minutes or (site.slurm.time_limit_minutes if on_slurm else None)
    return PlannedPoint(
        point=point,
        refused=refused,
        seconds=estimate.seconds,
        limit_seconds=60.0 * minutes if on_slurm and minutes else None,
        nodes=len(nodes),
    )


def write_studies(records: Sequence[StudyRecord], site: Site, runs_dir: Path) -> StudyFolder:
    """Writes the folders of studies that are about to start, all or none; returns the last, `all` or the only one."""
    path = studies_dir(runs_dir) / records[-1].study_id
    written: list[StudyFolder] = []
    try:
        with stoppable(f". Continue with: {RESUME} {path.absolute()}"):
            for record in reversed(records):  # `all` first: killed here, it says which studies are missing
                written.append(StudyFolder((studies_dir(runs_dir) / record.study_id).absolute()))
                write_study(record, site, runs_dir)
    except OSError as error:
        for folder in written:
            shutil.rmtree(folder.path, ignore_errors=True)
        if is_disk_full(error):
            raise StorageError(f"No space left in {runs_dir}. Free some, or choose another --runs-dir.") from error
        raise
    return written[0]


def write_study(record: StudyRecord, site: Site, runs_dir: Path) -> StudyFolder:
    """Writes the folder of a study that is about to start."""
    folder = StudyFolder((studies_dir(runs_dir) / record.study_id).absolute())
    folder.path.mkdir(parents=True)
    write_text(folder.site, site_text(site))
    write_record(folder, record)  # last: a folder with a record is a study that can be resumed
    return folder
