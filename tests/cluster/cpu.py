"""CPU time of a node: a control group with a quota, so that nodes do not compete for the cores that they share."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

# Where control groups of version 1 and 2 are mounted.
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
PERIOD_US = 20_000  # short against a training step, so that throttling is even
PRECEDENCE = 20  # over other processes of this machine, so that a node gets its quota also where they are busy


def find_missing() -> str | None:
    """Returns what this machine lacks to limit the CPU time of nodes; None if nothing."""
    controllers = V2 / "cgroup.subtree_control"
    if (V1 / "tasks").exists() or (controllers.exists() and "cpu" in controllers.read_text().split()):
        return None
    return "limiting the CPU time of nodes needs the control group controller 'cpu'"


def group_of(name: str) -> Path:
    """The control group of a node."""
    return (V1 if (V1 / "tasks").exists() else V2) / f"trainmark-{name}"


def limit(name: str, pids: Iterable[int], cores: float) -> None:
    """Gives processes, and those they start later, the time of `cores` cores, which may be a fraction."""
    group = group_of(name)
    group.mkdir(exist_ok=True)
    _set_quota(group, str(round(cores * PERIOD_US)))
    if (group / "cpu.weight").exists():
        (group / "cpu.weight").write_text(str(100 * PRECEDENCE))
    else:
        (group / "cpu.shares").write_text(str(1024 * PRECEDENCE))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            (group / "cgroup.procs").write_text(str(pid))


def lift(name: str) -> None:
    """Lifts the limit, if there is one."""
    if (group := group_of(name)).exists():
        _set_quota(group, "max" if (group / "cpu.max").exists() else "-1")


def _set_quota(group: Path, quota_us: str) -> None:
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(quota_us)


def remove_all(prefix: str) -> None:
    """Removes the control groups of all nodes whose names begin so; their processes must have ended."""
    for group in group_of("").parent.glob(f"{group_of(prefix).name}n*"):
        group.rmdir()
