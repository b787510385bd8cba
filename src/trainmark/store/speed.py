"""Speed of this machine in the newest stored runs."""

from itertools import islice
from pathlib import Path

from trainmark.machine.topology import read_topology
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import TrainmarkError
from trainmark.spec.result import Result
from trainmark.spec.status import StoredSpeed
from trainmark.store.runs import all_runs, read_result

MAX_READ = 8  # runs; the Result of a large ensemble is slow to read


def newest_speed(runs_dir: Path, config: RunConfig) -> StoredSpeed | None:
    """Returns the speed of the newest run on the same CPU and precision, preferably of the same model, or None."""
    cpu, model, precision = read_topology().cpu_model, config.model, config.train.precision
    found = []
    for folder in islice(reversed(all_runs(runs_dir)), MAX_READ):
        try:
            result = read_result(folder)
        except TrainmarkError:
            continue
        if result is not None and (speed := _speed_of(result, cpu, model, precision)):
            found.append(speed)
    return next((speed for speed in found if speed.share is not None), found[0] if found else None)


def _speed_of(result: Result, cpu: str, model: str, precision: str) -> StoredSpeed | None:
    ceiling, share = (result.metrics.get(name) for name in ("ceiling_flops", "flops_share_of_ceiling"))
    cores = result.plan.cores_used
    if ceiling is None or ceiling.value is None or not cores or result.machine.get("cpu") != cpu:
        return None
    if result.software.get("device") != "cpu" or (ceiling.detail or {}).get("precision") != precision:
        return None
    is_same = result.config.model == model and share is not None
    return StoredSpeed(result.run_id, ceiling.value / cores, share.value if is_same and share else None)
