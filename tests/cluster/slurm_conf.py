"""The text of the configuration files of a test cluster."""

import re
from pathlib import Path

from tests.cluster.instance import Instance
from tests.cluster.shape import Shape

# Slurm wants device files for GPUs, and only looks whether they are there.
DEVICE_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")


def fault_settings() -> dict[str, str]:
    """How soon Slurm notices faults and acts: as soon as its own limits let it."""
    return {
        # A dead node is noticed after about three messages to it timed out: 16 s.
        "SlurmdTimeout": "5",
        "MessageTimeout": "5",
        "KillWait": "3",
        # Nodes come back by themselves when they were silent, but not when an administrator set them down.
        "ReturnToService": "1",
        "MinJobAge": "3600",
        "SchedulerParameters": "sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1",
    }


def place_settings(instance: Instance, host_name: str, logs: Path) -> dict[str, str]:
    """Addresses and paths."""
    run_folder = instance.run_folder
    return {
        "ClusterName": f"test{instance.number}",
        "SlurmctldHost": f"{host_name}({instance.controller_address})",
        "SlurmctldPort": str(instance.controller_port),
        "SlurmUser": "root",
        # A requeued job waits until its credential has expired before it starts again.
        "AuthInfo": f"socket={run_folder}/munge.socket,cred_expire=5",
        "StateSaveLocation": f"{run_folder}/state",
        "SlurmctldPidFile": f"{run_folder}/slurmctld.pid",
        "SlurmctldLogFile": f"{logs}/slurmctld.log",
        "SlurmdSpoolDir": f"{run_folder}/spool/%n",
        "SlurmdPidFile": f"{run_folder}/spool/%n.pid",
        "SlurmdLogFile": f"{logs}/slurmd.%n.log",
    }


def machine_settings(shape: Shape) -> dict[str, str]:
    """What a node has and how it is shared out."""
    return {
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        # Slurm refuses to bind tasks to more cores than the machine has.
        "TaskPlugin": "task/affinity" if shape.can_bind else "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "5",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "MaxArraySize": str(shape.max_array_size),
        "DefMemPerCPU": str(shape.memory_per_node_mebibytes // shape.cores_per_node),
        "MailProg": "/bin/true",
    }


def slurm_conf(shape: Shape, instance: Instance, host_name: str, logs: Path) -> str:
    """`slurm.conf`, with the shape's own settings over the usual ones."""
    settings = {
        **place_settings(instance, host_name, logs),
        **machine_settings(shape),
        **fault_settings(),
        **shape.slurm_settings,
    }
    has = f"Sockets=1 CoresPerSocket={shape.cores_per_node} ThreadsPerCore=1"
    if shape.gpus_per_node:
        settings["GresTypes"], has = "gpu", f"{has} Gres=gpu:{shape.gpus_per_node}"
    return "\n".join(
        [
            *(f"{name}={value}" for name, value in settings.items()),
            f"NodeName=DEFAULT {has} RealMemory={shape.memory_per_node_mebibytes}",
            *(f"NodeName={name} NodeAddr={instance.address(i)}" for i, name in enumerate(shape.node_names, start=1)),
            "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "",
        ]
    )


def mpi_conf(local_storage: Path) -> str:
    """`mpi.conf`: PMIx meets its clients in a folder that must not be shared between nodes."""
    return f"PMIxCliTmpDirBase={local_storage}\n"


def gres_conf(shape: Shape) -> str:
    """`gres.conf`: a faked GPU is some device file; its place in the list is the number that a step is given."""
    return f"Name=gpu File={','.join(DEVICE_FILES[: shape.gpus_per_node])}\n" if shape.gpus_per_node else ""


def hosts(shape: Shape, instance: Instance, host_name: str) -> str:
    """`/etc/hosts` of every node."""
    lines = ["127.0.0.1 localhost", f"{instance.controller_address} {host_name}"]
    lines += [f"{instance.address(i)} {name}" for i, name in enumerate(shape.node_names, start=1)]
    return "\n".join([*lines, ""])


def nsswitch_conf(text: str) -> str:
    """`/etc/nsswitch.conf` of every node: no questions to name servers, which the nodes cannot reach."""
    return re.sub(r"^hosts:.*$", "hosts: files", text, flags=re.MULTILINE)
