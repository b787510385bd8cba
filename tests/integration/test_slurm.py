"""Runs on a real Slurm cluster of four nodes: arrays, one allocation, members that span nodes, status and cancel."""

import json
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.slurm_overhead import measure, write_counters, write_site

from tests.cluster.cluster import Cluster
from tests.cluster.requirements import require_cluster
from tests.cluster.runs import GPU_SITE, MEDIUM, ONE_SLOT_SITE, SITE, ClusterRun, states
from tests.conftest import ROOT, SMALL, Command
from tests.run_events import events_of, losses_of
from tests.waiting import wait_until

Start = Callable[..., ClusterRun]


def test_four_members_train_as_one_array_and_as_they_would_on_one_machine(
    start_on_cluster: Start, warm_trainmark: Command
) -> None:
    run = start_on_cluster(*SMALL, "--members", "4", "--workers", "1")
    code, result, errors = run.end()
    assert code == 0, errors
    assert (result["state"], states(result)) == ("complete", ["finished"] * 4)
    assert result["plan"]["system_scale"] == 4
    assert json.loads((run.folder / "submissions/0001.json").read_text())["is_array"]
    started = [events_of(run.folder, member)[0] for member in range(4)]
    assert {event["host"] for event in started} <= {"n1", "n2", "n3", "n4"}
    assert all(event["affinity"]["verified"] for event in started)
    assert [member["exit"]["job_id"] for member in result["members"]] == [run.job_of(member) for member in range(4)]
    # What is finished is collected where there is no Slurm, too.
    again = warm_trainmark("resume", str(run.folder), "--json", SLURM_CONF="/nowhere")
    assert json.loads(again.stdout)["metrics"]["quality_ensemble"] == result["metrics"]["quality_ensemble"]
    local = warm_trainmark("run", *SMALL, "--members", "1", "--runs-dir", "local", "--json")
    assert local.returncode == 0, local.stderr
    (local_run,) = (run.runs.parent / "local").glob("*/plan.json")
    assert losses_of(run.folder) == losses_of(local_run.parent)


def test_members_of_two_workers_span_nodes_and_start_together_in_one_allocation(start_on_cluster: Start) -> None:
    run = start_on_cluster(
        *(*SMALL, "--members", "2", "--workers", "2", "--set", "launch.allocation=one"), site=ONE_SLOT_SITE
    )
    code, result, errors = run.end()
    assert code == 0, errors
    assert states(result) == ["finished"] * 2
    hosts = [[events_of(run.folder, member, rank=rank)[0]["host"] for rank in (0, 1)] for member in (0, 1)]
    assert len({host for pair in hosts for host in pair}) == 4
    begins = [next(e["wall_s"] for e in events_of(run.folder, m) if e["kind"] == "run_start") for m in (0, 1)]
    assert abs(begins[0] - begins[1]) < 1.0
    assert (run.folder / "jobs/0000/attempt-1/go").read_text() == (run.folder / "jobs/0001/attempt-1/go").read_text()
    where = json.loads((run.folder / "jobs/0000/attempt-1/rendezvous.json").read_text())
    assert not where["address"].startswith(("127.", "0."))


def test_in_one_allocation_members_beside_each_other_start_together_each_on_its_own_accelerator(tmp_path: Path) -> None:
    require_cluster()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.cluster.placed_worker "$@"\n')
    python.chmod(0o755)
    site = tmp_path / "site.toml"
    site.write_text(f'python = "{python}"\n{GPU_SITE.read_text()}')
    devices = [("n1", "0"), ("n1", "1"), ("n2", "0"), ("n2", "1")]
    with Cluster(tmp_path / "cluster", nodes=2, gpus=2) as cluster:
        run = ClusterRun(
            cluster, tmp_path, *SMALL, "--members", "4", "--workers", "1", "--set", "launch.allocation=one", site=site
        )
        code, result, errors = run.end()
        assert code == 0, errors
        assert states(result) == ["finished"] * 4
        attempts = [run.folder / f"jobs/{member:04d}/attempt-1" for member in range(4)]
        seen = [json.loads((attempt / "device.json").read_text()) for attempt in attempts]
        assert sorted((each["host"], each["device"]) for each in seen) == devices
        assert len({(attempt / "go").read_text() for attempt in attempts}) == 1
        # By hand there is no start signal, and none is waited for.
        cluster.run("sbatch", "--output=/dev/null", str(run.folder / "jobs/0000/job.sh"), "2")
        wait_until((run.folder / "jobs/0000/attempt-2/done.json").exists)


def test_status_cancel_and_resume_work_from_another_shell_after_the_submitter_died(start_on_cluster: Start) -> None:
    run = start_on_cluster(*MEDIUM, "--members", "2", "--workers", "1", "--set", "train.epochs=30")
    run.wait_for("epoch_stop", member=0)
    run.process.kill()
    run.process.wait()
    status = json.loads(run.trainmark("status", "latest", "--json").stdout)
    assert not status["alive"]
    assert [member["job"]["job_id"] for member in status["members"]] == [run.job_of(0), run.job_of(1)]
    assert {member["state"] for member in status["members"]} <= {"starting", "training", "predicting", "finished"}
    table = run.trainmark("status", "latest").stdout
    assert "RUNNING" in table
    assert "running as jobs; the launcher has ended" in table
    cancelled = run.trainmark("cancel", "latest")
    assert cancelled.returncode == 0, cancelled.stderr
    assert "stopped; 0 of 2 members finished" in cancelled.stdout
    shown = json.loads(run.trainmark("show", "latest", "--json").stdout)
    assert (shown["state"], states(shown)) == ("unfinished", ["stopped", "stopped"])
    result = run.resume()
    assert (result["state"], states(result)) == ("complete", ["finished"] * 2)
    assert [member["attempts"] for member in result["members"]] == [2, 2]
    assert result["members"][0]["restarted"]


def test_members_that_wait_in_the_queue_say_why_and_are_stopped_by_cancel(
    cluster: Cluster, start_on_cluster: Start
) -> None:
    everything = ("--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 3000")
    other = cluster.run("sbatch", "--parsable", *everything).strip()
    try:
        run = start_on_cluster(*SMALL, "--members", "2", "--workers", "1")
        # Slurm says so when it has looked at the queue.
        wait_until(lambda: run.trainmark("status", "latest").stdout.count("PENDING (Resources)") > 0)
        members = json.loads(run.trainmark("status", "latest", "--json").stdout)["members"]
        assert [member["state"] for member in members] == ["queued", "queued"]
        assert states(json.loads(run.trainmark("show", "latest", "--json").stdout)) == ["queued", "queued"]
        looking = run.begin("preflight", "--site", str(SITE))
        wait_until(lambda: "preflight-" in cluster.run("squeue", "--noheader", "--format=%j"))
        looking.send_signal(signal.SIGINT)
        assert "Stopped by SIGINT; its job was cancelled" in looking.communicate()[1]
        assert looking.returncode == 130
        assert "preflight-" not in cluster.run("squeue", "--noheader", "--format=%j")
        # A record that is lost is made again, from the script and the queue.
        (run.folder / "submissions/0001.json").write_text("")
        cancelled = run.trainmark("cancel", "latest")
        assert cancelled.returncode == 0, cancelled.stderr
        assert run.end()[0] == 130
        shown = json.loads(run.trainmark("show", "latest", "--json").stdout)
        members = json.loads(run.trainmark("status", "latest", "--json").stdout)["members"]
    finally:
        cluster.run("scancel", other)
    assert [(member["state"], member["job"]["state"]) for member in members] == [("stopped", "CANCELLED")] * 2
    assert states(shown) == ["stopped", "stopped"]
    assert all("cancelled by a user (CANCELLED)" in member["reason"] for member in shown["members"])


def test_where_slurm_does_not_answer_nothing_is_written(trainmark: Command, tmp_path: Path) -> None:
    require_cluster()
    (tmp_path / "slurm.conf").write_text("nonsense\n")
    for command in ("run", "preflight"):
        launcher = ("--launcher", "slurm") if command == "run" else ()
        done = trainmark(command, *launcher, "--site", str(SITE), SLURM_CONF=str(tmp_path / "slurm.conf"))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "Slurm is unreachable: " in done.stderr
        assert "Run where `sinfo` works" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_leaves_the_jobs_alone_and_resume_collects_them_without_a_second_try(start_on_cluster: Start) -> None:
    run = start_on_cluster(*MEDIUM, "--members", "2", "--workers", "1")
    run.wait_for("run_start", member=0)
    run.process.terminate()
    code, _, errors = run.end()
    assert code == 130
    assert "submitted jobs continue" in errors
    assert f"trainmark resume {run.folder}" in errors
    result = run.resume()
    assert [member["attempts"] for member in result["members"]] == [1, 1]
    assert result["metrics"]["time_to_train_all_s"]["status"] == "measured"


def test_many_members_are_split_at_the_largest_array_and_followed_by_one_look_at_a_time(tmp_path: Path) -> None:
    require_cluster()
    # MaxArraySize 11 allows the task numbers 0 to 10: 24 members are 11 + 11 + 2.
    with Cluster(tmp_path / "cluster", max_array_size=11) as cluster:
        write_site(tmp_path)
        write_counters(tmp_path)
        row = measure(cluster, tmp_path, members=24)
    submissions = sorted((tmp_path / "24" / "runs").glob("*/submissions/*.json"))
    assert [len(json.loads(path.read_text())["tasks"]) for path in submissions] == [11, 11, 2]
    assert row["calls"].pop("sbatch") == 3
    # The first look is after half a second, later ones less and less often. Else it is asked whether it is
    # there, before anything is written, and for the largest array.
    assert row["calls"].pop("squeue") <= 2 + row["whole_s"] / 0.5
    assert row["calls"] == {"scontrol": 2}


def test_a_refused_job_ends_the_run_with_slurms_own_words(start_on_cluster: Start, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE.read_text().replace('partition = "debug"', 'partition = "nowhere"'))
    code, result, errors = start_on_cluster(*SMALL, "--members", "2", "--workers", "1", site=site).end()
    assert code == 1
    assert "invalid partition specified: nowhere" in errors
    assert (result["state"], states(result)) == ("failed", ["failed", "failed"])


def test_a_hostile_folder_name_is_only_a_name(start_on_cluster: Start, cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "a %j $(touch injected) 'b' \"c\"; touch injected"
    folder.mkdir()
    code, result, errors = start_on_cluster(*SMALL, "--members", "1", "--workers", "1", folder=folder).end()
    assert code == 0, errors
    assert states(result) == ["finished"]
    assert not list(tmp_path.rglob("injected"))
    (run,) = (folder / "runs").glob("*/plan.json")
    assert (run.parent / "jobs/0000/attempt-1/rank-0.log").exists()


def test_preflight_finds_a_good_cluster_good_and_names_all_that_is_wrong(
    start_on_cluster: Start, cluster: Cluster, tmp_path: Path
) -> None:
    run = start_on_cluster("--dry-run", "--members", "1")
    run.end()
    good = run.trainmark("preflight", "--site", str(SITE), "--json")
    assert good.returncode == 0, good.stderr
    assert {finding["verdict"] for finding in json.loads(good.stdout)["findings"]} == {"good"}
    bad_site = tmp_path / "bad.toml"
    bad_site.write_text(f'python = "/no/such/python"\n{SITE.read_text()}')
    bad = run.trainmark("preflight", "--site", str(bad_site))
    assert bad.returncode == 1
    assert "/no/such/python" in bad.stdout
    assert not list((tmp_path / "runs").glob(".preflight*"))


def test_job_sh_can_be_submitted_by_hand(start_on_cluster: Start, cluster: Cluster, tmp_path: Path) -> None:
    run = start_on_cluster(*SMALL, "--members", "1", "--workers", "1")
    run.wait_for("rank_started")
    code, _, errors = run.end()
    assert code == 0, errors
    attempt = run.folder / "jobs/0000/attempt-2"
    cluster.run("sbatch", f"--output={tmp_path}/by-hand.log", str(run.folder / "jobs/0000/job.sh"), "2")
    wait_until(lambda: (attempt / "done.json").exists())
    assert "srun" in shlex.split((run.folder / "jobs/0000/job.sh").read_text(), comments=True)


def test_mpirun_inside_a_job_trains_four_ranks_over_two_nodes_and_passes_on_the_warning_of_the_time_limit(
    start_on_cluster: Start, cluster: Cluster, tmp_path: Path
) -> None:
    require_cluster("mpirun")
    site = tmp_path / "site.toml"
    site.write_text(f'{SITE.read_text()}starter = "mpirun"\n')
    run = start_on_cluster(*MEDIUM, "--members", "1", "--workers", "4", "--set", "train.communication=mpi", site=site)
    run.wait_for("epoch_stop")
    hosts = [events_of(run.folder, rank=rank)[0]["host"] for rank in range(4)]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    # What Slurm sends to the batch script before the limit, without waiting for the limit itself.
    cluster.run("scancel", "--batch", "--signal=USR2", run.job_of(0))
    code, result, errors = run.end()
    assert code == 1, errors
    assert "asked to end by SIGUSR2" in result["members"][0]["reason"]
    resumed = run.resume()
    assert states(resumed) == ["finished"]
    assert resumed["members"][0]["restarted"]
    assert "MPI" in resumed["metrics"]["communication_bytes_per_step"]["reason"]
