"""The test cluster itself: its nodes run jobs, are bound, limited and cut off, and fail as real ones do."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster import Cluster, cpu
from tests.cluster.processes import has_ended
from tests.cluster.requirements import require_cluster

ROOT = Path(__file__).resolve().parents[2]

# Rank 0 counts what rank 1 sends it for one second after the first 0.3 s, and prints megabits per second.
TRANSFER = """
import os, socket, time
address = (os.environ["SERVER"], 5001)
if os.environ["SLURM_PROCID"] == "0":
    connection, _ = socket.create_server(("", 5001)).accept()
    begun = time.monotonic()
    while time.monotonic() - begun < 0.3:
        connection.recv(1 << 20)
    begun, received = time.monotonic(), 0
    while time.monotonic() - begun < 1:
        received += len(connection.recv(1 << 20))
    print(received * 8 / 1e6 / (time.monotonic() - begun))
else:
    connection = None
    while connection is None:
        try:
            connection = socket.create_connection(address)
        except ConnectionRefusedError:
            time.sleep(0.05)
    try:
        while True:
            connection.sendall(bytes(1 << 16))
    except OSError:
        pass
"""

PRINT_CORES = "import os; print(os.uname().nodename, *sorted(os.sched_getaffinity(0)))"

MPI_SUM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d", sum);
    return MPI_Finalize();
}
"""


@pytest.fixture(autouse=True)
def leave_no_job(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test finds an empty cluster, even after another failed."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").cancel_all_jobs()


def submit(cluster: Cluster, script: str, *options: str) -> str:
    """Submits a script whose output goes to `JOB.out` in the cluster's folder; the job's number comes back."""
    path = cluster.folder / "script.sh"
    path.write_text(f"#!/bin/bash\n{script}\n")
    return cluster.run("sbatch", "--parsable", f"--output={cluster.folder}/%A.out", *options, str(path)).strip()


def field(cluster: Cluster, job: str, name: str) -> str:
    """One field of what Slurm says of a job."""
    found = re.search(rf"\b{name}=(\S+)", cluster.run("scontrol", "show", "job", job))
    assert found, name
    return found[1]


def wait_for_job(cluster: Cluster, job: str, state: str) -> float:
    """The seconds until a job has a state."""
    return cluster.wait_until(lambda: field(cluster, job, "JobState") == state, f"job {job} is {state}")


def sleeping_job(cluster: Cluster, *options: str) -> str:
    """The number of a job that runs."""
    job = submit(cluster, "sleep 300", *options)
    wait_for_job(cluster, job, "RUNNING")
    return job


def measure_megabits_per_s(cluster: Cluster) -> float:
    """What one connection from n2 to n1 carries."""
    environment = f"--export=ALL,SERVER={cluster.node('n1').address}"
    options = ["-N2", "--nodelist=n1,n2", environment]
    return float(cluster.run("srun", *options, sys.executable, "-c", TRANSFER))


def test_all_four_nodes_are_idle_and_run_a_task_under_their_own_names(cluster: Cluster) -> None:
    assert [cluster.node_state(node) for node in ("n1", "n2", "n3", "n4")] == ["idle"] * 4
    assert sorted(cluster.run("srun", "-N4", "hostname").split()) == ["n1", "n2", "n3", "n4"]


def test_every_task_of_an_array_runs_once(cluster: Cluster) -> None:
    job = submit(cluster, f"echo $SLURM_ARRAY_TASK_ID >> {cluster.folder}/tasks", "--array=0-7%4")
    cluster.wait_until(lambda: not cluster.run("squeue", "--noheader", f"--jobs={job}"), "the array is done")
    assert sorted((cluster.folder / "tasks").read_text().split()) == ["0", "1", "2", "3", "4", "5", "6", "7"]


def test_tasks_are_bound_to_cores_of_their_own(cluster: Cluster) -> None:
    if cluster.shape.cores_per_node < 2:
        pytest.skip("a node has one core here")
    command = ["srun", "-N1", "-n2", "-c1", "--cpu-bind=cores", sys.executable, "-c", PRINT_CORES]
    first, second = cluster.run(*command).splitlines()
    assert len(first.split()) == len(second.split()) == 2  # the node and one core
    assert first != second


def test_local_storage_is_separate_and_the_folder_is_common(cluster: Cluster) -> None:
    cluster.run_on("n1", "touch", str(cluster.local_storage / "mine"), str(cluster.folder / "ours"))
    assert cluster.run_on("n1", "ls", str(cluster.local_storage)).split() == ["mine"]
    assert cluster.run_on("n2", "ls", str(cluster.local_storage)).split() == []
    assert list(cluster.local_storage.iterdir()) == []
    assert cluster.run_on("n2", "ls", str(cluster.folder / "ours"))


def test_ranks_find_each_other_by_pmix_and_by_mpirun(cluster: Cluster) -> None:
    require_cluster("mpicc", "mpirun")
    (cluster.folder / "sum.c").write_text(MPI_SUM)
    program = str(cluster.folder / "sum")
    cluster.run("mpicc", str(cluster.folder / "sum.c"), "-o", program)
    assert cluster.run("srun", "-N4", "-n4", "--kill-on-bad-exit=1", "--mpi=pmix", program) == "6"  # 0 + 1 + 2 + 3
    job = submit(cluster, f"mpirun --map-by node {program}", "-N4", "-n4")
    wait_for_job(cluster, job, "COMPLETED")
    assert (cluster.folder / f"{job}.out").read_text() == "6"


def test_bandwidth_between_nodes_is_what_it_was_limited_to(cluster: Cluster) -> None:
    cluster.limit_bandwidth(80)
    try:
        assert 60 < measure_megabits_per_s(cluster) < 85
    finally:
        cluster.lift_limits()
    assert measure_megabits_per_s(cluster) > 200


def test_cpu_time_of_a_node_is_what_it_was_limited_to(cluster: Cluster) -> None:
    if missing := cpu.find_missing():
        pytest.skip(missing)
    cluster.limit_cpu(0.25)
    try:
        # A second of work takes four.
        assert measure_busy_share(cluster) < 0.35
    finally:
        cluster.lift_limits()
    assert measure_busy_share(cluster) > 0.35


def measure_busy_share(cluster: Cluster) -> float:
    """The share of its time that a job on a node is given a core."""
    busy = "import time; t = time.time()\nwhile time.time() < t + 2: pass\nprint(time.process_time() / 2)"
    return float(cluster.run("srun", "--nodelist=n1", "-n1", sys.executable, "-c", busy))


def test_a_job_outlives_a_short_cut_of_the_network(cluster: Cluster) -> None:
    job = sleeping_job(cluster, "--nodelist=n3")
    probe = ["bash", "-c", f"exec 3<>/dev/tcp/{cluster.node('n3').address}/6818"]
    cluster.run_on("n4", "timeout", "20", *probe)  # a busy machine answers late
    cluster.cut_network("n3")
    with pytest.raises(RuntimeError, match="124"):  # timeout's way to say that there was no answer
        cluster.run_on("n4", "timeout", "1", *probe)
    cluster.mend_network("n3")
    cluster.run_on("n4", "timeout", "20", *probe)
    assert field(cluster, job, "JobState") == "RUNNING"


def test_jobs_go_on_while_the_controller_restarts(cluster: Cluster) -> None:
    job = sleeping_job(cluster)
    cluster.stop_controller()
    with pytest.raises(RuntimeError, match="DOWN"):
        cluster.run("scontrol", "ping")
    cluster.start_controller()
    assert field(cluster, job, "JobState") == "RUNNING"
    assert field(cluster, job, "Restarts") == "0"


def test_a_node_set_down_fails_its_job_or_requeues_it(cluster: Cluster) -> None:
    failing = sleeping_job(cluster, "--nodelist=n1", "--no-requeue")
    requeued = sleeping_job(cluster, "--nodelist=n1", "--requeue")
    cluster.set_down("n1")
    wait_for_job(cluster, failing, "NODE_FAIL")
    wait_for_job(cluster, requeued, "PENDING")
    cluster.set_up("n1")
    wait_for_job(cluster, requeued, "RUNNING")
    assert field(cluster, requeued, "Restarts") == "1"


def test_jobs_end_by_power_loss_and_by_their_time_limit_which_is_announced(cluster: Cluster) -> None:
    lost = sleeping_job(cluster, "--nodelist=n2", "--no-requeue")
    cluster.run_on("n2", "touch", str(cluster.local_storage / "lost"))
    ended = sleeping_job(cluster, "--nodelist=n3", "--time=10")
    trap = "trap 'exit 7' USR2\nsleep 300 &\nwait"
    warned = submit(cluster, trap, "--nodelist=n3", "--time=10", "--signal=B:USR2@60")
    wait_for_job(cluster, warned, "RUNNING")
    # Slurm looks every 30 s: at the next look the one limit is over, the other near.
    cluster.set_time_left(ended, 1)
    cluster.set_time_left(warned, 31)
    cluster.power_off("n2")
    wait_for_job(cluster, lost, "NODE_FAIL")
    assert "Reason=Not responding" in cluster.run("scontrol", "show", "node", "n2")
    cluster.power_on("n2")
    assert cluster.run("srun", "--nodelist=n2", "ls", str(cluster.local_storage)) == ""
    wait_for_job(cluster, ended, "TIMEOUT")
    wait_for_job(cluster, warned, "FAILED")
    assert field(cluster, warned, "ExitCode") == "7:0"


def test_a_second_cluster_runs_beside_the_first_with_settings_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=2, cores=1, max_array_size=51, local_storage_mebibytes=8) as second:
        assert second.run("srun", "-N2", "hostname").split() != []
        with pytest.raises(RuntimeError, match="Invalid job array"):
            submit(second, "true", "--array=0-51")
        with pytest.raises(RuntimeError, match="No space left"):
            second.run_on("n1", "dd", "if=/dev/zero", f"of={second.local_storage}/big", "bs=1M", "count=9")
        assert cluster.run("sinfo", "--noheader", "--format=%D").strip() == "4"
    assert sorted(cluster.run("srun", "-N4", "hostname").split()) == ["n1", "n2", "n3", "n4"]


def test_what_a_killed_process_left_is_cleaned_by_the_next_cluster(tmp_path: Path) -> None:
    require_cluster()
    lost, following = tmp_path / "lost", tmp_path / "following"
    lost.mkdir()
    following.mkdir()
    program = "import sys, pathlib, time; from tests.cluster import Cluster; c = Cluster(pathlib.Path(sys.argv[1])); "
    program += "c.start(); print(c.instance.number, c.node('n1').init_pid(), flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, lost], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        number, first_process = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    node = psutil.Process(int(first_process))
    assert not has_ended(node)
    with Cluster(following, nodes=1) as cluster:
        with pytest.raises(FileNotFoundError):
            Cluster.attach(lost)
        assert has_ended(node)
        assert (cluster.instance.number == int(number)) or not Path(f"/sys/class/net/tmk{number}").exists()


def test_a_cluster_started_by_hand_stays_until_it_is_taken_down(tmp_path: Path) -> None:
    require_cluster()

    def by_hand(*arguments: str) -> str:
        command = [sys.executable, "-m", "tests.cluster", *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout

    assert f"export SLURM_CONF={tmp_path}/slurm.conf" in by_hand("up", str(tmp_path), "--nodes", "2")
    cluster = Cluster.attach(tmp_path)
    by_hand("power-off", str(tmp_path), "n2")
    by_hand("power-on", str(tmp_path), "n2")
    assert sorted(cluster.run("srun", "-N2", "hostname").split()) == ["n1", "n2"]
    by_hand("down", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="No cluster"):
        Cluster.attach(tmp_path)


def test_a_machine_that_cannot_run_a_cluster_skips_or_fails_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            monkeypatch.delenv("TRAINMARK_REQUIRE_CLUSTER", raising=False)
            with pytest.raises(pytest.skip.Exception, match="needs root"):
                require_cluster()
            monkeypatch.setenv("TRAINMARK_REQUIRE_CLUSTER", "1")
            with pytest.raises(pytest.fail.Exception, match="needs root"):
                require_cluster()
        finally:
            os.seteuid(0)
