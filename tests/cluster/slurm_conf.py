"""The text of the configuration files of a test cluster."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.instance import Instance


@dataclass(frozen=True)
class Shape:
    """What a cluster consists of."""

    num_nodes: int
    cores_per_node: int
    memory_per_node_mebibytes: int
    local_storage_mebibytes: int
    max_array_size: int

    @property
    def node_names(self) -> list[str]:
        """n1, n2, …"""
        return [f"n{number}" for number in range(1, self.num_nodes + 1)]


def slurm_conf(shape: Shape, instance: Instance, host_name: str, log_folder: Path) -> str:
    """`slurm.conf`: times are short so that tests see faults soon."""
    run_folder = instance.run_folder
    nodes = [
        f"NodeName={name} NodeAddr={instance.address(number)}" for number, name in enumerate(shape.node_names, start=1)
    ]
    return "\n".join(
        [
            f"ClusterName=test{instance.number}",
            f"SlurmctldHost={host_name}({instance.controller_address})",
            f"SlurmctldPort={instance.controller_port}",
            "SlurmUser=root",
            # A requeued job waits for its credential to expire before it starts again.
            f"AuthInfo=socket={run_folder}/munge.socket,cred_expire=5",
            f"StateSaveLocation={run_folder}/state",
            f"SlurmctldPidFile={run_folder}/slurmctld.pid",
            f"SlurmctldLogFile={log_folder}/slurmctld.log",
            f"SlurmdSpoolDir={run_folder}/spool/%n",
            f"SlurmdPidFile={run_folder}/spool/%n.pid",
            f"SlurmdLogFile={log_folder}/slurmd.%n.log",
            "SlurmdParameters=config_overrides",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/affinity",
            "JobAcctGatherType=jobacct_gather/linux",
            "JobAcctGatherFrequency=5",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core_Memory",
            "SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1",
            f"MaxArraySize={shape.max_array_size}",
            "ReturnToService=2",
            "SlurmdTimeout=5",
            "KillWait=3",
            "MinJobAge=3600",
            "MailProg=/bin/true",
            f"DefMemPerCPU={shape.memory_per_node_mebibytes // shape.cores_per_node}",
            f"NodeName=DEFAULT Sockets=1 CoresPerSocket={shape.cores_per_node} ThreadsPerCore=1 "
            f"RealMemory={shape.memory_per_node_mebibytes}",
            *nodes,
            "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "",
        ]
    )


def mpi_conf(local_storage: Path) -> str:
    """`mpi.conf`: PMIx meets its clients in a folder that must not be shared between nodes."""
    return f"PMIxCliTmpDirBase={local_storage}\n"


def hosts(shape: Shape, instance: Instance, host_name: str) -> str:
    """`/etc/hosts` of every node."""
    lines = ["127.0.0.1 localhost", f"{instance.controller_address} {host_name}"]
    lines += [f"{instance.address(number)} {name}" for number, name in enumerate(shape.node_names, start=1)]
    return "\n".join([*lines, ""])


def nsswitch_conf(text: str) -> str:
    """`/etc/nsswitch.conf` of every node: no questions to name servers, which the nodes cannot reach."""
    return re.sub(r"^hosts:.*$", "hosts: files", text, flags=re.MULTILINE)
