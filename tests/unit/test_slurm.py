"""The launcher `slurm` without a cluster: shapes, scripts, and what Slurm's answers mean."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.planned import planned_config
from trainmark.launch.slurm.launcher import SlurmLauncher
from trainmark.launch.slurm.node_report import judge_count, judge_missing_report, judge_node, judge_setup, report
from trainmark.launch.slurm.preflight import preflight_script
from trainmark.launch.slurm.queue import find_job, parse_job, parse_queue, submit
from trainmark.launch.slurm.request import JobShape, check_shapes, shape_of_all, shape_of_member
from trainmark.launch.slurm.script import allocation_script, array_script, job_name, member_script, submission_script
from trainmark.launch.slurm.start import explain_setup, setup_lines
from trainmark.launch.slurm.submission import Submission, Task, read_submissions, write_submission
from trainmark.launch.slurm.underway import Underway, explain_end
from trainmark.machine.slurm.programs import SlurmUnreachableError
from trainmark.plan.explain import Source
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, read_site_file, resolve_config
from trainmark.spec.errors import PlanError
from trainmark.spec.files import write_text
from trainmark.spec.job_record import JobRecord
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.slurm_site import SlurmSite
from trainmark.spec.status import QueueState

CPU_SITE = Site.model_validate(
    {
        "name": "alpha",
        "groups": [
            {
                "prefix": "cn",
                "count": 4,
                "partition": "rome",
                "memory_gib_per_slot": 2,
                "slots": [{"cores": "0-3"}, {"cores": "4-7"}],
            }
        ],
        "slurm": {"account": "proj42", "time_limit_minutes": 90, "options": ["--constraint=fast"], "max_running": 3},
        "setup": ["module load python/3.11"],
        "python": "/opt/tm/bin/python",
    }
)


def records(site: Site, members: int, workers: int, *settings: str, path: str = "/shared/runs/RUN") -> list[JobRecord]:
    scale = {"ensemble": {"members": members, "workers": workers}, "launch": {"launcher": "slurm"}}
    chosen = [Source("test", scale), *map(parse_setting, settings)]
    config, plan = make_plan(resolve_config([*chosen, parse_setting("launch.allocator=system")]), site)
    return [JobRecord(RunFolder(Path(path)), config, site, job) for job in plan.jobs]


def test_a_member_that_fills_its_nodes_asks_for_whole_nodes() -> None:
    half, whole, two = (shape_of_member(records(CPU_SITE, 1, workers)[0]) for workers in (1, 2, 4))
    assert half == JobShape(1, 1, 1, 4, has_whole_nodes=False, has_accelerators=False)
    assert whole == JobShape(1, 2, 2, 4, has_whole_nodes=True, has_accelerators=False)
    assert two == JobShape(2, 4, 2, 4, has_whole_nodes=True, has_accelerators=False)


def test_ranks_that_bind_themselves_get_whole_nodes_because_slurm_would_not_keep_jobs_apart() -> None:
    site = CPU_SITE.model_copy(update={"slurm": SlurmSite(binding="plan")})
    assert shape_of_member(records(site, 1, 1)[0]).has_whole_nodes
    assert "#SBATCH --exclusive" in member_script(records(site, 1, 1)[0])


def test_one_allocation_holds_each_lane_once() -> None:
    # 12 members of one worker on 4 nodes of two slots: 8 lanes.
    assert shape_of_all(records(CPU_SITE, 12, 1)) == JobShape(4, 8, 2, 4, has_whole_nodes=True, has_accelerators=False)


def test_the_header_asks_for_what_the_site_and_the_member_say() -> None:
    lines = member_script(records(CPU_SITE, 1, 1)[0]).splitlines()
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name=RUN",
        "#SBATCH --account=proj42",
        "#SBATCH --partition=rome",
        "#SBATCH --time=01:30:00",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH --threads-per-core=1",
        "#SBATCH --mem=2048M",
        "#SBATCH --signal=USR2@120",
        "#SBATCH --open-mode=append",
        "#SBATCH --no-requeue",
        "#SBATCH --constraint=fast",
    ]
    assert "module load python/3.11" in lines


def test_the_time_limit_of_the_run_wins_over_that_of_the_site() -> None:
    (record,) = records(CPU_SITE, 1, 1, "launch.time_limit_minutes=600")
    assert "#SBATCH --time=10:00:00" in member_script(record)


def test_srun_is_told_everything_explicitly() -> None:
    (record,) = records(CPU_SITE, 1, 4)
    start = next(line for line in member_script(record).splitlines() if line.startswith("srun"))
    for option in ("--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--cpus-per-task=4", "--cpu-bind=cores"):
        assert f" {option} " in start
    assert "--kill-on-bad-exit=1" in start
    assert '/shared/runs/RUN/jobs/0000/attempt-"$attempt"/rank-%t.log' in start


def test_an_array_names_each_members_try_and_holds_back_as_the_site_says() -> None:
    jobs = records(CPU_SITE, 5, 1)
    chosen = [jobs[1], jobs[4]]
    script = array_script(chosen, Submission(3, (Task(1, 2), Task(4, 1)), is_array=True, job_id=None))
    assert "#SBATCH --array=0-1%3" in script
    assert "#SBATCH --comment=submission-3" in script
    assert "members=(0001 0004)\nattempts=(2 1)\n" in script


def test_in_one_allocation_lanes_lie_on_their_own_nodes_and_members_of_a_lane_follow_each_other() -> None:
    jobs = records(CPU_SITE, 6, 4, "launch.allocation=one")  # two lanes of two nodes, three members each
    tasks = tuple(Task(record.job.member, 1) for record in jobs)
    script = allocation_script(jobs, Submission(1, tasks, is_array=False, job_id=None))
    steps = [line.split("/jobs/")[-1].strip() for line in script.splitlines() if "job.sh" in line]
    assert [line.split()[0] for line in script.splitlines() if "job.sh" in line] == [
        *("TRAINMARK_WAIT_FOR_START=1", "/bin/bash", "/bin/bash"),
        *("TRAINMARK_WAIT_FOR_START=1", "/bin/bash", "/bin/bash"),
    ]
    assert [step.split('"/')[1] for step in steps] == [
        *(f"{member:04d}/job.sh 1 --exact --relative=0 --mem=4096M" for member in (0, 2, 4)),
        *(f"{member:04d}/job.sh 1 --exact --relative=2 --mem=4096M" for member in (1, 3, 5)),
    ]
    assert "trainmark.launch.start_barrier /shared/runs/RUN 0:1 1:1\n) &" in script
    # By hand there is nothing to wait for.
    assert member_script(jobs[1]).count(" ${TRAINMARK_WAIT_FOR_START:+--wait-for-start}") == 1
    assert member_script(jobs[1]).count("--wait-for-start") == 1


def test_accelerators_are_asked_for_by_the_sites_name_and_left_to_slurm() -> None:
    slots = tuple(Slot(cores=(i,), accelerator=i) for i in range(4))
    site = Site(name="g", groups=(NodeGroup(count=2, slots=slots, gres="gpu:a100"),))
    script = member_script(records(site, 1, 4)[0])
    assert "#SBATCH --gres=gpu:a100:4" in script
    assert "CUDA_VISIBLE_DEVICES" not in script


def test_each_step_of_an_allocation_asks_for_the_accelerators_of_its_own_ranks_alone() -> None:
    slots = tuple(Slot(cores=(i,), accelerator=i) for i in range(4))
    site = Site(name="g", groups=(NodeGroup(count=2, slots=slots, gres="gpu:a100"),))
    jobs = records(site, 4, 2, "launch.allocation=one")  # two members of two ranks on each of two nodes
    tasks = tuple(Task(record.job.member, 1) for record in jobs)
    assert "#SBATCH --gres=gpu:a100:4\n" in allocation_script(jobs, Submission(1, tasks, is_array=False, job_id=None))
    for record in jobs:
        assert " --gres=gpu:a100:2 " in member_script(record)
    assert "--gres" not in member_script(records(CPU_SITE, 1, 1)[0])


def test_slots_of_different_size_and_uneven_shares_are_refused() -> None:
    uneven = Site(name="u", groups=(NodeGroup(slots=(Slot(cores=(0,)), Slot(cores=(1, 2)))),))
    _, plan = make_plan(resolve_config([parse_setting("ensemble.members=1")]), uneven)
    with pytest.raises(PlanError, match="slots of a group have 1, 2"):
        check_shapes(plan, uneven, one_allocation=False)
    three = Site(name="t", groups=(NodeGroup(count=3, slots=tuple(Slot(cores=(i,)) for i in range(3))),))
    chosen = [parse_setting("ensemble.members=1"), parse_setting("ensemble.workers=7")]
    _, plan = make_plan(resolve_config(chosen), three)
    with pytest.raises(PlanError, match=r"7 workers cannot be spread evenly over 3 nodes.* Choose --workers 6"):
        check_shapes(plan, three, one_allocation=False)


def test_the_queue_is_read_task_by_task() -> None:
    text = "12_0|RUNNING|n1|submission-1|None\n12_1|PENDING||submission-1|Resources\n13|COMPLETED|n[1-2]|(null)|None\n"
    found = parse_queue(text)
    assert found["12_0"].state == QueueState("12_0", "RUNNING", "n1", "")
    assert found["12_0"].comment == "submission-1"
    assert found["12_1"].state.is_waiting
    assert found["12_1"].state.reason == "Resources"
    assert not found["13"].state.is_active


def test_a_task_that_was_cancelled_before_it_had_a_number_is_found_by_its_array() -> None:
    queue = parse_queue("2|CANCELLED||(null)|Resources\n7_0|RUNNING|n1|(null)|None\n7_[1-3]|CANCELLED||(null)|None\n")
    for number, state in (("2_1", "CANCELLED"), ("7_0", "RUNNING"), ("7_2", "CANCELLED"), ("2", "CANCELLED")):
        found = find_job(queue, number)
        assert found is not None and found.state.state == state
    assert find_job(queue, "71_2") is None and find_job(queue, "7") is None


def test_the_controllers_last_word_is_understood() -> None:
    text = (
        "JobId=7 JobName=x UserId=me(1) JobState=NODE_FAIL Reason=NodeDown Dependency=(null) NodeList=n[2-3] NumNodes=2"
    )
    assert parse_job("7", text) == QueueState("7", "NODE_FAIL", "n[2-3]", "NodeDown")
    assert parse_job("7", "JobId=7 JobState=PENDING Reason=None NodeList=(null)") == QueueState("7", "PENDING")
    failed = "JobId=7 JobState=FAILED Reason=NonZeroExitCode ExitCode=28:0 NodeList=n1 BatchHost=n1"
    assert parse_job("7", failed) == QueueState("7", "FAILED", "n1", "NonZeroExitCode", 28)
    assert parse_job("7", "slurm_load_jobs error: Invalid job id specified") is None


@given(st.text(max_size=40))
def test_any_answer_of_the_queue_is_read_without_an_error(text: str) -> None:
    parse_queue(text)
    parse_job("1", text)


def test_the_number_of_a_job_can_be_lost_and_the_submission_still_be_known(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    submission = Submission(2, (Task(0, 1), Task(5, 3)), is_array=True, job_id=None)
    write_submission(folder, submission)
    assert read_submissions(folder) == [submission]
    taken = submission.with_job("88")
    assert (taken.job_of(Task(5, 3)), submission.job_of(Task(5, 3))) == ("88_1", None)
    alone = Submission(3, (Task(0, 1), Task(1, 1)), is_array=False, job_id="9")
    assert alone.job_of(Task(1, 1)) == "9"


def test_what_never_reached_slurm_was_no_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = records(CPU_SITE, 1, 1, path=str(tmp_path))
    record.new_attempt()
    write_submission(record.folder, Submission(1, (Task(0, 1),), is_array=True, job_id=None))
    monkeypatch.setattr("trainmark.launch.slurm.launcher.read_queue", lambda *names: {})  # Slurm has no such job
    assert SlurmLauncher().adopt([record]) == []
    assert record.folder.num_attempts(0) == 0
    assert [each.gave_up for each in read_submissions(record.folder)] == [True]


@pytest.mark.parametrize("record", ["", "{", "[]", '{"job_id": "7"}', '{"tasks": [{"member": 0}]}'])
@pytest.mark.parametrize("allocation", ["per-member", "one"])
def test_a_submission_whose_record_is_garbled_is_found_again_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allocation: str, record: str
) -> None:
    jobs = records(CPU_SITE, 3, 1, f"launch.allocation={allocation}", path=str(tmp_path))
    folder, tasks = jobs[0].folder, (Task(0, 1), Task(1, 2), Task(2, 1))
    sent = Submission(2, tasks, is_array=allocation == "per-member", job_id="7", token="7e57")
    write_submission(folder, Submission(1, (Task(1, 1),), is_array=True, job_id="6"))
    write_text(folder.submission_script(2), submission_script(jobs, sent))
    write_text(folder.submission_record(2), record)
    assert read_submissions(folder)[1] == replace(sent, job_id=None)
    text = "6_0|FAILED|n1|submission-1|None\n" + (
        "".join(f"7_{task}|RUNNING|n2|submission-2-7e57|None\n" for task in range(3))
        if sent.is_array
        else "7|RUNNING|n2|submission-2-7e57|None\n"
    )
    monkeypatch.setattr("trainmark.launch.slurm.launcher.read_queue", lambda *names: parse_queue(text))
    assert {member: job.state for member, job in SlurmLauncher().queue(folder).items()} == dict.fromkeys(
        range(3), "RUNNING"
    )
    for member, attempt in tasks:
        folder.attempt(member, attempt).path.mkdir(parents=True)
    assert SlurmLauncher().adopt(jobs) == jobs
    assert read_submissions(folder)[1] == sent  # the record is whole again


def test_a_copied_submission_belongs_to_the_original_also_if_its_record_is_garbled(tmp_path: Path) -> None:
    (job,) = records(CPU_SITE, 1, 1, path=str(tmp_path / "original"))
    sent = Submission(1, (Task(0, 1),), is_array=True, job_id="7", token="7e57")
    write_text(job.folder.submission_script(1), submission_script([job], sent))
    write_text(job.folder.submission_record(1), "")
    copy = RunFolder(tmp_path / "copy")
    shutil.copytree(job.folder.path, copy.path)
    assert read_submissions(job.folder) == [replace(sent, job_id=None)]
    assert read_submissions(copy) == []


def test_a_garbled_record_without_a_script_is_a_submission_that_slurm_never_saw(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_text(folder.submission_record(1), "")
    assert read_submissions(folder) == [Submission(1, (), is_array=True, job_id=None)]


def answers(monkeypatch: pytest.MonkeyPatch, **programs: str | Exception) -> list[str]:
    """What Slurm's programs say; the calls come back."""
    called: list[str] = []

    def call(program: str, *words: str) -> str:
        called.append(program)
        answer = programs[program]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("trainmark.launch.slurm.queue.call", call)
    return called


@pytest.mark.parametrize(
    ("printed", "number"), [("12\n", "12"), ("12;alpha\n", "12"), ("Welcome!\nYour budget: 3 h\n12\n", "12")]
)
def test_the_number_of_a_job_is_read_from_what_sbatch_prints(
    monkeypatch: pytest.MonkeyPatch, printed: str, number: str
) -> None:
    answers(monkeypatch, sbatch=printed)
    assert submit(Path("out"), Path("job.sh")) == number


@pytest.mark.parametrize(("printed", "said"), [("", "nothing"), ("Submitted batch job 7\n", "Submitted batch job 7")])
def test_a_submission_of_which_sbatch_names_no_job_is_looked_for_and_else_fails_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, said: str
) -> None:
    (record,) = records(CPU_SITE, 1, 1, path=str(tmp_path))
    answers(monkeypatch, sbatch=printed, squeue="", scontrol="")
    launcher = SlurmLauncher()
    assert launcher.submit([record]) == [record]
    assert launcher.num_running(record.folder) == 0
    refusal = f"Slurm refused the job: sbatch succeeded without printing a job ID. It printed: {said}"
    assert launcher.broken == {record.folder: refusal}
    monkeypatch.setattr("trainmark.launch.slurm.launcher.token_hex", lambda length: "7e57")
    answers(monkeypatch, sbatch=printed, squeue="31_0|PENDING||submission-2-7e57|None\n", scontrol="")
    assert SlurmLauncher().submit([record]) == [record]
    assert read_submissions(record.folder)[1].job_id == "31"


def test_a_submission_that_slurm_did_not_hear_is_tried_again_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = records(CPU_SITE, 1, 1, path=str(tmp_path))
    called = answers(monkeypatch, sbatch=SlurmUnreachableError("away"), squeue="", scontrol="")
    launcher, waits = SlurmLauncher(), []
    for _ in range(12):
        assert launcher.submit(jobs) == []
        launcher.poll()
        waits.append(launcher.poll_s)
    assert (waits[0], waits[1], waits[-1]) == (0.75, 1.125, 15.0)
    assert called.count("sbatch") == 12
    assert jobs[0].folder.num_attempts(0) == 1


def test_a_job_whose_ranks_would_be_asked_to_end_when_it_starts_is_refused() -> None:
    config, plan = make_plan(resolve_config([parse_setting("launch.time_limit_minutes=2")]), CPU_SITE)
    with pytest.raises(PlanError, match="limited to 2 min, but ranks get SIGUSR2 120 s before that"):
        SlurmLauncher().check(config, plan, CPU_SITE)
    SlurmLauncher().check(planned_config(launch={"time_limit_minutes": 3}), plan, CPU_SITE)
    patient = CPU_SITE.model_copy(update={"slurm": SlurmSite(time_limit_minutes=90, warn_before_limit_s=5400)})
    with pytest.raises(PlanError, match="5400 s"):
        SlurmLauncher().check(planned_config(), plan, patient)
    # Preflight's job of five minutes is not told at all.
    script = preflight_script(patient, patient.groups[0], Path("/token"), Path("/report"), job_name="p")
    assert "--signal" not in script


def test_local_storage_is_reported_as_a_run_would_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOSUCH", raising=False)
    for local_storage, words in (
        ("$NOSUCH/x", "the variable NOSUCH is not set"),
        (f"{tmp_path}/x", "does not exist"),
    ):
        told = report(tmp_path / "token", local_storage)["local_storage"]
        assert words in told["error"]
        assert not list(tmp_path.iterdir())
    assert report(tmp_path / "token", str(tmp_path))["local_storage"]["error"] is None


@pytest.fixture
def job(tmp_path: Path) -> Underway:
    (record,) = records(CPU_SITE, 1, 1, path=str(tmp_path))
    _, attempt = record.new_attempt()
    return Underway(record, attempt, "5_0")


@pytest.mark.parametrize(
    ("state", "end", "words"),
    [
        ("NODE_FAIL", "failed", "Slurm job 5_0 on n1: a node failed (NODE_FAIL)"),
        ("TIMEOUT", "failed", "it reached its time limit (TIMEOUT)"),
        ("OUT_OF_MEMORY", "failed", "it ran out of memory (OUT_OF_MEMORY)"),
        ("CANCELLED", "stopped", "cancelled by a user (CANCELLED)"),
        ("COMPLETED", "failed", "it ended without a completion record (COMPLETED)"),
    ],
)
def test_slurms_word_explains_an_end_that_no_rank_explains(job: Underway, state: str, end: str, words: str) -> None:
    job.state = QueueState("5_0", state, "n1")
    found, reason = explain_end(job)
    assert found == end
    assert reason is not None
    assert words in reason


def test_a_completion_record_counts_whatever_slurm_says(job: Underway) -> None:
    job.state = QueueState("5_0", "NODE_FAIL", "n1")
    write_text(job.attempt.done, "{}")
    assert explain_end(job) == ("finished", None)


def test_a_job_that_slurm_has_forgotten_says_so(job: Underway) -> None:
    assert explain_end(job) == ("failed", "Slurm no longer knows job 5_0, and it left no completion record")


def test_the_end_of_a_log_tells_of_a_program_that_could_not_start(job: Underway) -> None:
    job.state = QueueState("5_0", "FAILED", "n1")
    write_text(job.attempt.status, "127")
    write_text(job.attempt.rank_log(0), "loading modules\nenv: 'python9': No such file or directory\n------\n\n")
    log = job.attempt.rank_log(0)
    said = f"env: 'python9': No such file or directory (log: {log})"
    assert explain_end(job) == ("failed", f"Slurm job 5_0 on n1: it failed (FAILED); {said}")


@pytest.mark.parametrize(
    ("setup", "code", "report"),
    [
        # The script goes on after a line that fails, and ends with one that ends it.
        (
            ("false && true", "echo no such module >&2; (exit 3)", "echo going on"),
            0,
            "3: ( exit 3 ); it printed: no such module",
        ),
        (("echo the licence has expired", "exit 4"), 4, "4: exit 4; it printed: the licence has expired"),
        (("set -e", "echo stop >&2; false", "echo not reached"), 1, "1: false; it printed: stop"),
        (("source lines.sh",), 0, "5: source lines.sh"),  # not what is inside
        (("true", "trap 'echo mine' EXIT"), 0, None),
    ],
)
def test_a_line_of_setup_that_fails_is_named_with_what_it_printed(
    tmp_path: Path, setup: tuple[str, ...], code: int, report: str | None
) -> None:
    write_text(tmp_path / "lines.sh", "false\nreturn 5\n")
    lines = [
        f"folder={tmp_path}",
        "exec >>job.log 2>&1",
        *setup_lines(setup, at_exit='echo "$status" >"$folder/status"'),
    ]
    done = subprocess.run(["bash", "-c", "\n".join([*lines, "true"])], cwd=tmp_path, check=False)
    assert done.returncode == code
    assert (tmp_path / "status").exists() == (code != 0)
    found = explain_setup(tmp_path / "job.log")
    assert found == (None if report is None else f"setup failed with exit code {report} (log: {tmp_path / 'job.log'})")


def test_a_member_that_never_began_fails_by_its_setup_and_one_that_began_does_not(job: Underway) -> None:
    write_text(job.attempt.job_log, "no such module\ntrainmark: setup failed with exit code 1: module load x\n")
    write_text(job.attempt.rank_log(0), "env: 'python9': No such file or directory\n")
    write_text(job.attempt.status, "127")
    job.state = QueueState("5_0", "FAILED", "n1")
    said = f"setup failed with exit code 1: module load x; it printed: no such module (log: {job.attempt.job_log})"
    assert explain_end(job) == ("failed", f"Slurm job 5_0 on n1: it failed (FAILED); {said}")
    write_text(job.attempt.rank_events(0), "")
    assert "setup failed" not in (explain_end(job)[1] or "")


def test_a_failing_line_of_setup_is_a_finding_of_preflight() -> None:
    good, bad = judge_setup("group 1", None), judge_setup("group 1", "setup failed with exit code 1: module load x")
    assert (good.verdict, bad.verdict, bad.found) == ("good", "warning", "setup failed with exit code 1: module load x")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("28", "; a rank failed: no space left where the run is stored; free some space or choose another --runs-dir"),
        (
            "137",
            "; a rank was killed by signal 9 (SIGKILL); probably out of memory, or killed by a user",
        ),
        ("143", ""),  # told to end by SIGTERM, because of something else
        ("1", ""),
    ],
)
def test_the_exit_code_tells_of_ranks_that_could_not(job: Underway, status: str, words: str) -> None:
    job.state = QueueState("5_0", "FAILED", "n1")
    write_text(job.attempt.status, status)
    if status == "28":  # whether the rank had room for its own words or not
        write_text(job.attempt.rank_events(0), '{"kind": "failed", "error": "OSError: [Errno 28]", "wall_s": 1}\n')
    assert explain_end(job) == ("failed", f"Slurm job 5_0 on n1: it failed (FAILED){words}")


def test_a_ranks_own_error_is_told_first(job: Underway) -> None:
    write_text(job.attempt.rank_events(0), '{"kind": "failed", "error": "ValueError: no", "wall_s": 1}\n{"kind": "ste')
    job.state = QueueState("5_0", "FAILED", "n1")
    write_text(job.attempt.status, "1")
    assert explain_end(job)[1] == f"rank 0 failed: ValueError: no (log: {job.attempt.rank_log(0)})"


def test_a_job_that_is_gone_gets_time_to_show_its_completion_record(
    job: Underway, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("trainmark.launch.slurm.underway.time.monotonic", lambda: clock[0])
    job.state = QueueState("5_0", "COMPLETED", "n1")
    job.update({})
    clock[0] = 103.0
    assert not job.has_ended()
    clock[0] = 107.0
    assert job.has_ended()


def test_a_member_has_ended_when_all_that_its_ranks_wrote_can_be_seen(
    job: Underway, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("trainmark.launch.slurm.underway.time.monotonic", lambda: clock[0])
    write_text(job.attempt.done, "{}")
    assert not job.has_ended()  # the events and predictions have not come through yet
    write_text(job.attempt.rank_events(0), '{"kind": "memory"}\n{"kind": "finis')
    write_text(job.attempt.predictions, "")
    assert not job.has_ended()
    write_text(job.attempt.rank_events(0), '{"kind": "memory"}\n{"kind": "finished", "wall')
    assert not job.has_ended()  # a line that is cut off is not there yet
    write_text(job.attempt.rank_events(0), '{"kind": "memory"}\n{"kind": "finished", "wall_s": 1}\n')
    assert job.has_ended()
    job.attempt.predictions.unlink()
    assert not job.has_ended()
    write_text(job.attempt.done, '{"predictions": false}')  # made-up data have none: nothing more will come
    assert job.has_ended()
    job.attempt.rank_events(0).unlink()
    assert not job.has_ended()
    clock[0] = 120.0  # six seconds, ten for its neighbours, and 16 × 0.3 s for a second ceiling are not over
    assert not job.has_ended()
    clock[0] = 121.0  # whatever is missing now will not come any more
    assert job.has_ended()
    clock[0] = 120.0
    job.gone_since_s = 113.0  # a job that is gone measures nothing more
    assert job.has_ended()


def test_the_name_of_jobs_is_plain_whatever_the_run_is_called() -> None:
    assert job_name(RunFolder(Path("/runs/20260101-a:b c;d"))) == "20260101-a_b_c_d"


def node(**changes: object) -> dict[str, object]:
    software = {"trainmark": "1", "torch": "2", "python": "3.11"}
    good: dict[str, object] = {
        "host": "n1",
        "software": software,
        "saw_token": "abc",
        "wall_s": 100.2,
        "cores": 4,
        "cores_of_node": 8,
        "limits": {"open files": 65536},
        "local_storage": None,
    }
    return good | changes


def verdicts(**changes: object) -> dict[str, str]:
    here = {"software": node()["software"], "wall_s": 100.0, "free_bytes": 2**40}
    found = judge_node("group 1", CPU_SITE.groups[0], node(**changes), here, "abc")
    return {finding.what.rpartition(": ")[2]: finding.verdict for finding in found}


def test_a_good_node_has_no_fault() -> None:
    assert set(verdicts().values()) == {"good"}


@pytest.mark.parametrize(
    ("changes", "what", "verdict"),
    [
        ({"saw_token": None}, "runs folder", "problem"),
        ({"saw_token": "stale"}, "runs folder", "problem"),
        ({"software": {"trainmark": "1", "torch": "1.9", "python": "3.11"}}, "torch", "problem"),
        ({"wall_s": 130.0}, "clock", "warning"),
        ({"cores": 8}, "cores per task", "warning"),
        ({"cores": 2}, "cores per task", "problem"),
        ({"cores_of_node": 6}, "slots", "problem"),  # the site has two slots of four
        ({"limits": {"open files": 1024}}, "open files limit", "warning"),
        (
            {"local_storage": {"folder": "/nvme", "free_bytes": 0, "error": "Permission denied"}},
            "local storage /nvme",
            "problem",
        ),
    ],
)
def test_each_fault_of_a_node_is_found(changes: dict[str, object], what: str, verdict: str) -> None:
    found = verdicts(**changes)
    assert found.pop(what) == verdict
    assert set(found.values()) == {"good"}


def test_a_group_of_more_nodes_than_slurm_has_is_a_problem() -> None:
    group = CPU_SITE.groups[0]  # of four nodes
    assert judge_count("group 1", group, {"n1", "n2", "n3", "n4"}).verdict == "good"
    few = judge_count("group 1", group, {"n1"})
    assert (few.verdict, few.found) == ("problem", "4 in the site file, but Slurm has 1")


def test_a_job_that_never_came_to_its_turn_is_a_warning_and_one_that_broke_a_problem() -> None:
    waiting = judge_missing_report("group 1", "4", QueueState("4", "PENDING", "", "Priority"), [])
    assert (waiting.verdict, waiting.found) == ("warning", "job 4 was still pending (Priority)")
    broke = judge_missing_report(
        "group 1",
        "4",
        QueueState("4", "FAILED", "n1"),
        ["srun: error: n1: task 0: Exited with exit code 2", "python: not found"],
    )
    assert (broke.verdict, broke.found) == ("problem", "job 4 ended (FAILED) without a report: python: not found")


# Each example site, a run on it, and the scripts that must come out, to the letter: tests/unit/golden/<site>/.
GOLDEN = Path(__file__).parent / "golden"
EXAMPLE_RUNS = {
    "cpu-two-socket": (8, 2, ()),
    "four-gpus": (4, 8, ("launch.allocation=one",)),
    "arm-one-socket": (3, 1, ("launch.threads=6", "launch.time_limit_minutes=30")),
}


@pytest.mark.parametrize("name", EXAMPLE_RUNS)
def test_the_scripts_of_an_example_site_are_the_golden_ones(name: str) -> None:
    members, workers, settings = EXAMPLE_RUNS[name]
    site = read_site_file(ROOT / "docs" / "sites" / f"{name}.toml")
    jobs = records(site, members, workers, *settings)
    (batch,) = SlurmLauncher().batch_scripts(jobs).values()
    assert member_script(jobs[0]) == (GOLDEN / name / "job.sh").read_text()
    assert batch == (GOLDEN / name / "submission.sh").read_text()


def test_the_script_of_a_run_in_another_python_is_the_golden_one() -> None:
    site = read_site_file(ROOT / "docs" / "sites" / "cpu-two-socket.toml")
    job, *_ = records(site, 8, 2, "launch.python=/opt/envs/gcc12/bin/python")
    script = member_script(job).replace(str(ROOT), "/checkout")
    assert script == (GOLDEN / "other-python" / "job.sh").read_text()


def test_the_start_barrier_needs_no_engine_and_stays_with_the_sites_python() -> None:
    site = CPU_SITE.model_copy(update={"python": "/site/python"})
    jobs = records(site, 2, 2, "launch.python=/opt/other/python", "launch.allocation=one")
    (batch,) = SlurmLauncher().batch_scripts(jobs).values()
    assert "/site/python -P -m trainmark.launch.start_barrier" in batch
    assert "/opt/other/python" not in batch  # that is in the members' own scripts


def test_preflight_asks_the_python_of_the_run_and_compares_it_with_nothing_here() -> None:
    python, group = "/opt/other/python", CPU_SITE.groups[0]
    script = preflight_script(CPU_SITE, group, Path("/token"), Path("/report"), job_name="p", python=python)
    assert f"{python} {ROOT}/src/trainmark/launch/other_python.py trainmark.launch.slurm.node_report /token" in script
    here = {"software": node()["software"], "wall_s": 100.0, "free_bytes": 2**40}
    without = {"trainmark": "1", "torch": "unavailable: not installed as a package", "python": "3.14.0"}
    found = judge_node("group 1", group, node(software=without), here, "abc", python)
    (problem,) = [finding for finding in found if finding.verdict != "good"]
    assert problem.what == f"group 1, node n1: torch of {python}"
    assert problem.fix == f"Install it: {python} -m pip install torch"


def test_every_example_site_has_golden_scripts() -> None:
    assert {path.stem for path in (ROOT / "docs" / "sites").glob("*.toml")} == set(EXAMPLE_RUNS)
