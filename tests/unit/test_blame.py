"""The rank that failed first is named, not the peers it took along."""

import json
from pathlib import Path

from tests.run_events import as_lines
from trainmark.launch.blame import explain_failure, explain_mpirun, explain_srun
from trainmark.spec.run_folder import AttemptFolder


def attempt(tmp_path: Path, **failures: tuple[float, str]) -> AttemptFolder:
    folder = AttemptFolder(tmp_path, tmp_path)
    for rank, (wall_s, error) in failures.items():
        event = {"kind": "failed", "wall_s": wall_s, "error": error}
        folder.rank_events(int(rank[1:])).write_text(json.dumps(event) + "\n")
    return folder


def test_a_killed_rank_is_blamed_before_the_peers_that_lost_it(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "RuntimeError: Connection closed by peer"))
    assert explain_failure(folder, [1, -9]).startswith("rank 1 killed by signal 9 (SIGKILL); probably out of memory")


def test_the_earliest_error_is_the_cause(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "RuntimeError: Connection closed"), r1=(4.9, "ValueError: bad sample"))
    assert explain_failure(folder, [1, 1]).startswith("rank 1 failed: ValueError: bad sample (log: ")


def test_a_full_disk_is_told_by_the_exit_code_alone(tmp_path: Path) -> None:
    assert "no space left" in explain_failure(attempt(tmp_path), [28, None])


def test_a_silent_end_names_the_log(tmp_path: Path) -> None:
    told = explain_failure(attempt(tmp_path), [None, 3])
    assert told == f"rank 1 ended with exit code 3 (log: {tmp_path / 'rank-1.log'})"


def test_an_abort_that_follows_from_a_peers_error_is_not_the_cause(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r1=(4.9, "ValueError: bad sample"))
    assert explain_failure(folder, [-6, 1]).startswith("rank 1 failed: ValueError: bad sample")


def test_an_abort_is_the_cause_when_the_peers_only_lost_a_connection(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r1=(4.9, "RuntimeError: Connection reset by peer"))
    assert explain_failure(folder, [-6, 1]).startswith("rank 0 killed by signal 6 (SIGABRT)")


def began(folder: AttemptFolder, *ranks: int, finished: bool = False) -> None:
    """These ranks have events, and no word of their end but a good one."""
    for rank in ranks:
        kinds = ["rank_started", "finished"] if finished else ["rank_started"]
        folder.rank_events(rank).write_text(as_lines(*({"kind": kind} for kind in kinds)))


def test_under_mpirun_a_ranks_own_error_is_the_cause_and_not_the_end_that_mpirun_gave_the_others(
    tmp_path: Path,
) -> None:
    stopped = "stopped by SIGTERM"
    folder = attempt(
        tmp_path, r0=(4.0, stopped), r1=(4.9, "ValueError: bad sample"), r2=(4.8, "Connection closed by peer")
    )
    assert explain_mpirun(folder, 3, 1).startswith("rank 1 failed: ValueError: bad sample (log: ")


def test_under_mpirun_the_one_rank_that_says_nothing_was_killed(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "stopped by SIGTERM"), r2=(5.0, "RuntimeError: Connection reset by peer"))
    began(folder, 1)
    log = tmp_path / "rank-1.log"
    # Open MPI adds 128 to the signal; Hydra's 9 may be a signal or an exit code.
    killed = "killed by signal 9 (SIGKILL); probably out of memory, or killed by a user"
    assert explain_mpirun(folder, 3, 137) == f"rank 1 {killed} (log: {log})"
    assert (
        explain_mpirun(folder, 3, 9)
        == f"rank 1 ended without an error message; mpirun ended with exit code 9 (log: {log})"
    )


def test_under_mpirun_several_silent_ranks_are_all_named(tmp_path: Path) -> None:
    folder = attempt(tmp_path)
    began(folder, 0, 2)
    began(folder, 1, finished=True)
    words = "ranks 0, 2 ended without an error message; mpirun ended with exit code 9"
    assert explain_mpirun(folder, 3, 9) == f"{words} (log: {tmp_path / 'mpirun.log'})"


def test_of_several_silent_ranks_the_one_that_open_mpi_noticed_is_named(tmp_path: Path) -> None:
    folder = attempt(tmp_path)
    began(folder, 0, 1)
    (tmp_path / "mpirun.log").write_text(
        "-----\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code.\n-----\n"
        "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n-----\n"
    )
    assert explain_mpirun(folder, 2, 137).startswith("rank 1 killed by signal 9 (SIGKILL)")
    began(folder, 1, finished=True)
    assert explain_mpirun(folder, 2, 137).startswith("rank 0 killed by signal 9 (SIGKILL)")


def test_what_mpirun_passes_on_of_a_full_disk_is_understood(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r1=(5.0, "stopped by SIGTERM"))
    assert explain_mpirun(folder, 2, 28).startswith("a rank failed: no space left where the run is stored")


def test_an_mpirun_that_could_not_begin_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "mpirun.log").write_text("------\nssh: Could not resolve hostname n2\nORTE was unable to start\n")
    told = explain_mpirun(attempt(tmp_path), 2, 255)
    words = "mpirun ended with exit code 255: ssh: Could not resolve hostname n2"
    assert told == f"{words} (log: {tmp_path / 'mpirun.log'})"


def test_an_mpirun_that_ended_before_any_rank_began_is_named_with_its_log(tmp_path: Path) -> None:
    told = explain_mpirun(attempt(tmp_path), 2, 213)
    assert told == f"mpirun ended with exit code 213 (log: {tmp_path / 'mpirun.log'})"


def test_an_mpirun_that_kept_running_without_a_rank_is_reported_as_terminated(tmp_path: Path) -> None:
    told = explain_mpirun(attempt(tmp_path), 2, None)
    assert told == f"mpirun kept running and was terminated (log: {tmp_path / 'mpirun.log'})"


def test_under_srun_the_rank_that_it_saw_killed_is_the_cause_and_not_the_one_that_lost_it(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "RuntimeError: [...] Connection reset by peer"))
    folder.job_log.write_text(
        "srun: error: n1: task 0: Exited with exit code 1\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=4.0\n"
        "srun: error: n2: task 1: Killed\nsrun: Force Terminated StepId=4.0\n"
    )
    killed = "killed by signal 9 (SIGKILL); probably out of memory, or killed by a user"
    assert explain_srun(folder, 2) == f"rank 1 {killed} (log: {tmp_path / 'rank-1.log'})"


def test_under_srun_a_ranks_own_error_is_the_cause_and_not_the_end_that_srun_gave_the_others(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "ValueError: bad sample"), r1=(5.1, "stopped by SIGTERM"))
    folder.job_log.write_text(
        "srun: error: n1: task 0: Exited with exit code 1\nsrun: error: n1: task 1: Terminated\n"
        "srun: error: n2: tasks 2-3: Killed\n"
    )
    told = explain_srun(folder, 4)
    assert told is not None and told.startswith("rank 0 failed: ValueError: bad sample (log: ")


def test_under_srun_the_first_of_several_crashed_ranks_is_named(tmp_path: Path) -> None:
    folder = attempt(tmp_path, r0=(5.0, "RuntimeError: an unknown error after a peer has gone"))
    folder.job_log.write_text(
        "srun: error: n2: tasks 2-3: Segmentation fault (core dumped)\nsrun: error: n1: task 0: Exited with exit code 1"
    )
    told = explain_srun(folder, 4)
    assert told == f"rank 2 killed by signal 11 (SIGSEGV) (log: {tmp_path / 'rank-2.log'})"


def test_where_srun_says_nothing_of_signals_the_ranks_own_words_count(tmp_path: Path) -> None:
    assert explain_srun(attempt(tmp_path), 2) is None
    lost = attempt(tmp_path, r0=(5.0, "RuntimeError: Connection reset by peer"))
    lost.job_log.write_text("srun: error: n1: task 0: Exited with exit code 1\nsrun: error: n2: task 1: Aborted\n")
    told = explain_srun(lost, 2)
    assert told is not None and told.startswith("rank 0 failed: RuntimeError: Connection reset by peer")
