"""Every launcher: its script is valid shell, holds exactly the worker's words, and survives hostile names."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.mpirun import AS_ROOT, require_mpirun
from tests.planned import planned_config
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Job, Rank
from trainmark.spec.registries import LAUNCHERS
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot

JOB = Job(member=3, lane=1, ranks=(Rank(0, "n1", 0, (0, 1), None), Rank(1, "n1", 1, (2, 3), None)))
SITE = Site(name="site", groups=(NodeGroup(names=("n1",), slots=(Slot(cores="0-1"), Slot(cores="2-3"))),))
CONFIG = planned_config(launch={"allocator": "glibc-tuned"})


def script_of(launcher: str, path: str) -> str:
    text: str = LAUNCHERS.load(launcher)().script(JobRecord(RunFolder(Path(path)), CONFIG, SITE, JOB))
    return text


# Stands where srun would: it starts as many tasks as it is told to, one after another, here.
SRUN = """#!/bin/bash
for word in "$@"; do
  case $word in
    --ntasks=*) tasks=${word#--ntasks=}; shift ;;
    --*) shift ;;
    *) break ;;
  esac
done
for ((task = 0; task < tasks; task++)); do SLURM_PROCID=$task SLURM_STEP_NUM_TASKS=$tasks "$@" || exit; done
"""


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stands where Python would, and writes down the words it was called with, and its threads."""
    path = tmp_path_factory.mktemp("recorder") / "python"
    path.write_text(
        '#!/bin/bash\nrank=$6\n[ "$rank" = slurm ] && rank=$SLURM_PROCID\n'
        '[ "$rank" = mpi ] && rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n'
        'printf "%s\\0" "$@" "threads=$OMP_NUM_THREADS" >"$(dirname "$0")/called-$rank"\n'
    )
    srun = path.with_name("srun")
    srun.write_text(SRUN)
    for program in (path, srun):
        program.chmod(0o755)
    return path


def words_of(name: str, folder: Path, recorder: Path) -> list[list[str]]:
    """What each worker is called with when bash runs the launcher's script for a run in `folder`; mpirun is real."""
    if name == "mpi":
        require_mpirun()
    for old in recorder.parent.glob("called-*"):
        old.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(recorder))
        script = script_of(name, str(folder))
    environment = {"PATH": f"{recorder.parent}:/usr/bin:/bin", **AS_ROOT}
    done = subprocess.run(["/bin/bash"], input=script.encode(), capture_output=True, env=environment, cwd="/")
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")
    called = sorted(recorder.parent.glob("called-*"))
    return [path.read_bytes().decode().split("\0")[:-1] for path in called]


@pytest.mark.parametrize("name", list(LAUNCHERS))
def test_its_script_starts_one_worker_per_rank_with_the_threads_of_its_slot(
    recorder: Path, tmp_path: Path, name: str
) -> None:
    calls = words_of(name, tmp_path / "my run", recorder)
    assert len(calls) == 2
    for words in calls:
        assert words[2:4] == ["trainmark.train.worker", f"{tmp_path}/my run/jobs/0003/job.json"]
        assert words[-1] == "threads=2"


@pytest.mark.parametrize("name", list(LAUNCHERS))
@settings(max_examples=40, deadline=None)
@given(path=st.text(st.characters(exclude_characters="\0/", codec="utf-8"), min_size=1, max_size=30))
@example(path="a\nno_such_command")
@example(path="\n#SBATCH --wrap=touch")
@example(path="%j %t")
@example(path=".")
@example(path="..")
@example(path="$(touch injected)`touch injected`'\"; touch injected #")
def test_a_hostile_folder_name_is_one_word_and_never_a_command(recorder: Path, name: str, path: str) -> None:
    folder = recorder.parent / "runs" / path
    calls = words_of(name, folder, recorder)
    assert not Path("/injected").exists()
    assert len(calls) == 2
    # The whole path is one word, as the folder's path has it: "." names no folder of its own.
    assert all(words[3] == str(folder / "jobs" / "0003" / "job.json") for words in calls)
