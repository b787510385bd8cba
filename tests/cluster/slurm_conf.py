"""Configuration files of a test cluster."""

import re
from pathlib import Path

from tests.cluster.instance import Instance
from tests.cluster.shape import Shape

# Slurm requires device files for GPUs, and only checks that they exist.
DEVICE_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")


def fault_settings() -> dict[str, str]:
    """Fault detection as fast as Slurm allows."""
    return {
        # A dead node is detected after about three timed-out messages: 16 s.
        "SlurmdTimeout": "5",
        "MessageTimeout": "5",
        "KillWait": "3",
        # Nodes that did not respond return by themselves, but not those set down by an administrator.
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
        # A requeued job restarts only after its credential has expired.
        "AuthInfo": f"socket={run_folder}/munge.socket,cred_expire=5",
        "StateSaveLocation": f"{run_folder}/state",
        "SlurmctldPidFile": f"{run_folder}/slurmctld.pid",
        "SlurmctldLogFile": f"{logs}/slurmctld.log",
        "SlurmdSpoolDir": f"{run_folder}/spool/%n",
        "SlurmdPidFile": f"{run_folder}/spool/%n.pid",
        "SlurmdLogFile": f"{logs}/slurmd.%n.log",
    }


def machine_settings(shape: Shape) -> dict[str, str]:
    """Resources of a node and their allocation."""
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
    """`slurm.conf`, with the shape's settings over the defaults."""
    settings = {
        **place_settings(instance, host_name, logs),
        **machine_settings(shape),
        **fault_settings(),
        **shape.slurm_settings,
    }
    resources = f"Sockets=1 CoresPerSocket={shape.cores_per_node} ThreadsPerCore=1"
    if shape.gpus_per_node:
        settings["GresTypes"], resources = "gpu", f"{resources} Gres=gpu:{shape.gpus_per_node}"
    return "\n".join(
        [
            *(f"{name}={value}" for name, value in settings.items()),
            f"NodeName=DEFAULT {resources} RealMemory={shape.memory_per_node_mebibytes}",
            *(f"NodeName={name} NodeAddr={instance.address(i)}" for i, name in enumerate(shape.node_names, start=1)),
            "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            "",
        ]
    )


def mpi_conf(local_storage: Path) -> str:
    """`mpi.conf`: PMIx needs a node-local folder for its sockets."""
    return f"PMIxCliTmpDirBase={local_storage}\n"


def gres_conf(shape: Shape) -> str:
    """`gres.conf`: a fake GPU is any device file; its index in the list is what a step gets."""
    return f"Name=gpu File={','.join(DEVICE_FILES[: shape.gpus_per_node])}\n" if shape.gpus_per_node else ""


def hosts(shape: Shape, instance: Instance, host_name: str) -> str:
    """`/etc/hosts` of every node."""
    lines = ["127.0.0.1 localhost", f"{instance.controller_address} {host_name}"]
    lines += [f"{instance.address(i)} {name}" for i, name in enumerate(shape.node_names, start=1)]
    return "\n".join([*lines, ""])


def nsswitch_conf(text: str) -> str:
    """`/etc/nsswitch.conf` of every node: no DNS, which the nodes cannot reach."""
    return re.sub(r"^hosts:.*$", "hosts: files", text, flags=re.MULTILINE)
