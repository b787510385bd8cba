"""Faults of a real Slurm cluster during training: each ends in the Result that docs/reliability.md promises."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.faults import OUTCOMES, Outcome, table
from tests.cluster.requirements import require_cluster
from tests.cluster.runs import MEDIUM, ONE_SLOT_SITE, ClusterRun, states
from tests.conftest import ROOT, SMALL
from tests.run_events import losses_of
from tests.small_disk import fill, small_disk_on
from tests.waiting import wait_until

Start = Callable[..., ClusterRun]


def check(outcome: Outcome, result: dict[str, Any], member: int) -> None:
    """The member that was hit, and the run, ended as promised."""
    hit = result["members"][member]
    assert hit["state"] == outcome.member, hit
    if outcome.member != "finished":
        assert outcome.reason in hit["reason"]


def send_signal(cluster: Cluster, run: ClusterRun, member: int, name: str, rank: int = 0) -> None:
    """A rank of the member gets a signal; its process number is that of its node's own namespace."""
    run.wait_for("rank_started", member)
    started = next(event for event in run.events(member, rank=rank) if event["kind"] == "rank_started")
    cluster.run_on(started["host"], "kill", f"-{name}", str(started["pid"]))


def held_at_checkpoint(cluster: Cluster, run: ClusterRun, held: set[int]) -> set[int]:
    """Those of two members that have a checkpoint; they are stopped there."""
    for member in {0, 1} - held:
        if any(event["kind"] == "checkpoint" for event in run.events(member)):
            send_signal(cluster, run, member, "STOP")
            held.add(member)
    return held


def test_a_killed_rank_and_a_node_set_down_cost_their_members_alone(cluster: Cluster, start_on_cluster: Start) -> None:
    run = start_on_cluster(*MEDIUM, "--members", "4", "--workers", "1", "--set", "train.epochs=9")
    for member in range(4):
        run.wait_for("checkpoint", member)
    lost_node = run.wait_for("rank_started", member=2)["host"]
    on_lost_node = [m for m in range(4) if run.wait_for("rank_started", m)["host"] == lost_node]
    killed, spared = (member for member in range(4) if member not in on_lost_node)
    send_signal(cluster, run, killed, "KILL")
    cluster.set_down(lost_node)
    try:
        code, result, errors = run.end()
        assert code == 1, errors
        check(OUTCOMES["rank"], result, killed)
        for member in on_lost_node:
            check(OUTCOMES["set-down"], result, member)
        assert result["members"][spared]["state"] == "finished"
        assert result["state"] == OUTCOMES["rank"].run == OUTCOMES["set-down"].run
        assert any(f"member {killed} failed" in line for line in result["warnings"])
        resumed = run.resume()
    finally:
        cluster.set_up(lost_node)
    assert (resumed["state"], states(resumed)) == ("complete", ["finished"] * 4)
    for member in resumed["members"]:
        hit = member["member"] != spared
        assert (member["attempts"], member["restarted"]) == (2 if hit else 1, hit)
    assert resumed["metrics"]["time_to_train_all_s"]["status"] == "unavailable"
    assert "several attempts" in resumed["metrics"]["time_to_train_all_s"]["reason"]


def test_of_two_ranks_the_one_that_was_killed_is_blamed_by_srun_and_not_the_one_that_lost_it(
    cluster: Cluster, start_on_cluster: Start
) -> None:
    run = start_on_cluster(*MEDIUM, "--members", "1", "--workers", "2")
    run.wait_for("run_start")
    send_signal(cluster, run, 0, "KILL", rank=1)
    code, result, errors = run.end()
    assert code == 1, errors
    check(OUTCOMES["one-of-two"], result, 0)
    assert result["state"] == OUTCOMES["one-of-two"].run


def test_where_setup_fails_each_member_says_which_line_it_was_and_none_waits_for_another(
    start_on_cluster: Start, tmp_path: Path
) -> None:
    site = tmp_path / "site.toml"
    site.write_text(f'setup = ["echo the licence has expired", "exit 3"]\n{ONE_SLOT_SITE.read_text()}')
    run = start_on_cluster(*SMALL, "--members", "2", "--workers", "1", "--set", "launch.allocation=one", site=site)
    code, result, errors = run.end()
    assert code == 1, errors
    for member in (0, 1):
        check(OUTCOMES["setup"], result, member)
    assert result["state"] == OUTCOMES["setup"].run


def test_after_power_loss_a_second_attempt_follows_by_itself_but_not_after_scancel(
    cluster: Cluster, start_on_cluster: Start
) -> None:
    arguments = ("--members", "2", "--workers", "1", "--set", "launch.attempts=2")
    run = start_on_cluster(*MEDIUM, *arguments, site=ONE_SLOT_SITE)
    for member in (0, 1):
        run.wait_for("checkpoint", member)
    cluster.run("scancel", run.job_of(1))
    node = run.wait_for("rank_started")["host"]
    cluster.power_off(node)
    try:
        code, result, errors = run.end()
    finally:
        cluster.power_on(node)
    assert code == 1, errors
    check(OUTCOMES["power"], result, 0)
    check(OUTCOMES["scancel"], result, 1)
    assert result["state"] == OUTCOMES["scancel"].run
    assert [member["attempts"] for member in result["members"]] == [2, 1]
    assert result["members"][0]["restarted"]
    lost = json.loads((run.folder / "jobs/0000/attempt-1/exit.json").read_text())
    assert OUTCOMES["power"].reason in lost["reason"]
    assert run.events(0, attempt=2)[0]["host"] != node
    resumed = run.resume()
    assert (resumed["state"], states(resumed)) == (OUTCOMES["power"].run, ["finished"] * 2)
    assert [member["attempts"] for member in resumed["members"]] == [2, 2]


def test_a_node_that_is_cut_off_fails_the_member_that_spans_it(cluster: Cluster, start_on_cluster: Start) -> None:
    run = start_on_cluster(*MEDIUM, "--members", "1", "--workers", "2", site=ONE_SLOT_SITE)
    run.wait_for("epoch_stop")
    node = run.events(0, rank=1)[0]["host"]
    cluster.cut_network(node)
    try:
        code, result, errors = run.end()
    finally:
        cluster.mend_network(node)
    assert code == 1, errors
    check(OUTCOMES["network"], result, 0)
    assert result["state"] == OUTCOMES["network"].run
    assert states(run.resume()) == ["finished"]


def test_near_its_time_limit_a_member_writes_a_checkpoint_and_resume_goes_on_from_there(
    cluster: Cluster, start_on_cluster: Start, tmp_path: Path
) -> None:
    run = start_on_cluster(
        *MEDIUM, "--members", "1", "--workers", "2", "--set", "launch.checkpoint_epochs=0", site=ONE_SLOT_SITE
    )
    run.wait_for("epoch_stop")
    # What Slurm sends before the limit, without waiting for the limit itself.
    cluster.run("scancel", "--signal=USR2", run.job_of(0))
    code, result, errors = run.end()
    assert code == 1, errors
    check(OUTCOMES["time-limit"], result, 0)
    assert result["state"] == OUTCOMES["time-limit"].run
    assert any(event["kind"] == "checkpoint" for event in run.events(0))
    resumed = run.resume()
    assert states(resumed) == ["finished"]
    at = next(event["step"] for event in run.events(0, attempt=2) if event["kind"] == "resumed")
    before, after = losses_of(run.folder, attempt=1), losses_of(run.folder, attempt=2)
    draws = run.wait_for("data_ready")["draws"]
    # Two workers of 32 samples, six epochs; nothing of it was trained twice, and nothing left out.
    assert (len(before), len(before) + len(after)) == (at, 6 * (draws // 64))


def test_a_killed_submitter_and_a_controller_that_restarts_cost_nothing(
    cluster: Cluster, start_on_cluster: Start
) -> None:
    run = start_on_cluster(*MEDIUM, "--members", "2", "--workers", "1")
    run.wait_for("run_start", member=1)
    send_signal(cluster, run, 1, "STOP")  # so that it is not finished before we have asked
    cluster.stop_controller()
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    for command in ("cancel", "resume"):
        refused = run.trainmark(command, "latest")
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused.stderr
        assert "controller" in refused.stderr
        if command == "cancel":
            assert "Jobs were not cancelled and may continue: " in refused.stderr
            assert f"Once Slurm is reachable: trainmark cancel {run.folder}" in refused.stderr
    # The run's own files are there all the same.
    status = json.loads(run.trainmark("status", "latest", "--json").stdout)
    assert "controller" in status["unreachable"]
    assert {member["state"] for member in status["members"]} <= {"training", "predicting", "finished"}
    assert set(states(json.loads(run.trainmark("show", "latest", "--json").stdout))) <= {"running", "finished"}
    send_signal(cluster, run, 1, "CONT")
    cluster.start_controller()
    wait_until(lambda: "unreachable" not in run.trainmark("status", "latest").stdout)
    result = run.resume()
    for name in ("submitter", "controller"):
        check(OUTCOMES[name], result, 0)
        assert result["state"] == OUTCOMES[name].run
    assert [member["attempts"] for member in result["members"]] == [1, 1]


def test_a_full_shared_disk_fails_the_members_that_write_there_and_resume_goes_on(tmp_path: Path) -> None:
    require_cluster()
    # Nodes see what was mounted before they were switched on.
    with small_disk_on(tmp_path / "runs", mebibytes=6) as disk, Cluster(tmp_path / "cluster", nodes=2) as cluster:
        run = ClusterRun(cluster, tmp_path, *MEDIUM, "--members", "2", "--workers", "1")
        held: set[int] = set()
        wait_until(lambda: held_at_checkpoint(cluster, run, held) == {0, 1})  # one may be much faster than the other
        filler = fill(disk)
        for member in (0, 1):
            send_signal(cluster, run, member, "CONT")
        code, result, errors = run.end()
        assert code == 1, errors
        for member in (0, 1):
            check(OUTCOMES["disk"], result, member)
        assert result["state"] == OUTCOMES["disk"].run
        assert json.loads((run.folder / "result.json").read_text())["state"] == OUTCOMES["disk"].run
        filler.unlink()
        resumed = run.resume()
        assert (resumed["state"], states(resumed)) == ("complete", ["finished"] * 2)


def test_the_table_of_faults_in_the_documentation_is_what_these_tests_expect() -> None:
    assert table() in (ROOT / "docs" / "reliability.md").read_text()
