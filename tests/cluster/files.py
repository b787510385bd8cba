"""Writing a cluster's files, and finding the running cluster of a folder."""

import json
import secrets
import socket
from dataclasses import asdict
from pathlib import Path

from tests.cluster import slurm_conf
from tests.cluster.instance import Instance, all_instances
from tests.cluster.shape import Shape


def write_files(folder: Path, shape: Shape, instance: Instance) -> None:
    """Writes configuration into the cluster's folder, and the key and the record into the run-time folder."""
    host_name, logs, local_storage = socket.gethostname().split(".")[0], folder / "logs", folder / "local"
    for needed in (logs, local_storage, instance.process_folder, instance.run_folder / "state"):
        needed.mkdir(parents=True, exist_ok=True)
    key = instance.run_folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    (folder / "slurm.conf").write_text(slurm_conf.slurm_conf(shape, instance, host_name, logs))
    (folder / "mpi.conf").write_text(slurm_conf.mpi_conf(local_storage))
    (folder / "gres.conf").write_text(slurm_conf.gres_conf(shape))
    (folder / "hosts").write_text(slurm_conf.hosts(shape, instance, host_name))
    (folder / "nsswitch.conf").write_text(slurm_conf.nsswitch_conf(Path("/etc/nsswitch.conf").read_text()))
    instance.record.write_text(json.dumps({"folder": str(folder), "shape": asdict(shape)}))


def find_cluster(folder: Path) -> tuple[Instance, Shape]:
    """Returns instance and shape of the running cluster of a folder."""
    for instance in all_instances():
        if instance.record.exists():
            record = json.loads(instance.record.read_text())
            if record["folder"] == str(folder):
                return instance, Shape(**record["shape"])
    raise FileNotFoundError(f"No cluster of {folder} is running. Start one: python -m tests.cluster up {folder}.")
