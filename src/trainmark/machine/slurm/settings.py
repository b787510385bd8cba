"""The settings of `scontrol show config` that matter to those who submit jobs."""

import re
from dataclasses import dataclass

from trainmark.machine.slurm.fields import list_of, read_settings_lines, text_of


@dataclass(frozen=True)
class SlurmSettings:
    """How a cluster treats jobs."""

    cluster: str
    version: str
    task_plugins: tuple[str, ...]
    constrains_cores: bool
    mpi: str | None
    node_storage: str | None
    needs_account: bool
    gives_whole_nodes: bool

    @property
    def binds_tasks(self) -> bool:
        """Whether each task is bound to its own cores."""
        return any("affinity" in plugin for plugin in self.task_plugins)

    @property
    def confines_jobs(self) -> bool:
        """Whether all tasks of a job's step are kept on the cores of the step."""
        return self.constrains_cores and any("cgroup" in plugin for plugin in self.task_plugins)


def read_settings(text: str) -> SlurmSettings:
    """The settings, with Slurm's defaults for what the text does not say."""
    lines = read_settings_lines(text)
    enforced = re.split(r"\W+", lines.get("AccountingStorageEnforce", ""))
    return SlurmSettings(
        cluster=text_of(lines, "ClusterName") or "cluster",
        version=text_of(lines, "SLURM_VERSION") or "of unknown version",
        task_plugins=list_of(lines, "TaskPlugin"),
        constrains_cores=lines.get("ConstrainCores", "").lower() == "yes",
        mpi=text_of(lines, "MpiDefault"),
        node_storage=text_of(lines, "TmpFS"),
        needs_account=not {"associations", "limits", "qos", "safe", "wckeys", "all"}.isdisjoint(enforced),
        gives_whole_nodes="linear" in lines.get("SelectType", ""),
    )
