"""mpirun is recognised by what it says of itself, told where ranks go, and given what all of them share."""

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import pytest

from tests.conftest import ROOT
from tests.mpirun import AS_ROOT
from tests.planned import planned_config
from trainmark.launch.commands import shared_environment
from trainmark.launch.mpi import Mpirun, MpirunProcesses, check_root, find_mpirun, hosts_of, mpirun_argv
from trainmark.machine.local_site import local_site
from trainmark.pipeline import plan_run
from trainmark.plan.mapping import Scale, map_members
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import LaunchConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.run_folder import Places, RunFolder
from trainmark.spec.site import NodeGroup, Site, Slot

# What the programs print, as recorded from Debian 12's packages and Open MPI's and Intel's manuals.
OPEN_MPI = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
HYDRA = "HYDRA build details:\n    Version:                                 4.0.2\n    Process Manager:        pmi\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\nCopyright 2003-2023, Intel Corporation.\n"

RANKS = (
    Rank(0, "n1", 0, (0, 1), None),
    Rank(1, "n1", 1, (2, 3), None),
    Rank(2, "n2", 0, (0, 1), None),
    Rank(3, "n2", 1, (2, 3), None),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that PATH names."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, said: str, code: int = 0) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(said)}\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("said", "flavour"), [(OPEN_MPI, "open-mpi"), (HYDRA, "hydra")])
@pytest.mark.parametrize("name", ["mpirun", "mpiexec"])
def test_mpirun_is_known_by_its_own_words(folder: Path, name: str, said: str, flavour: str) -> None:
    program = put(folder, name, said)
    assert find_mpirun() == (str(program), flavour)


def test_no_mpirun_is_one_line_that_says_what_to_do(folder: Path) -> None:
    with pytest.raises(
        PlanError, match=r"^The launcher 'mpi' needs mpirun, but there is none on PATH\..*openmpi-bin.*$"
    ):
        find_mpirun()


def test_an_mpirun_of_another_maker_is_refused_by_name(folder: Path) -> None:
    put(folder, "mpirun", INTEL)
    with pytest.raises(PlanError, match=r"is 'Intel\(R\) MPI Library .* 20231005', but .*--launcher local\.$"):
        find_mpirun()


def test_a_program_that_cannot_be_run_is_refused(folder: Path) -> None:
    put(folder, "mpirun", "").write_text("#!/no/such/shell\n")
    with pytest.raises(PlanError, match=r"mpirun --version' failed: .*Fix it, or choose --launcher local\.$"):
        find_mpirun()


def test_open_mpi_fills_hosts_in_the_order_of_the_ranks_and_binds_nothing() -> None:
    words = mpirun_argv(Mpirun("/opt/bin/mpirun", "open-mpi"), hosts_of(RANKS, is_this_machine=False))
    assert shlex.join(words) == "/opt/bin/mpirun --host n1:2,n2:2 --map-by slot:OVERSUBSCRIBE --bind-to none -np 4"


def test_hydra_is_told_the_same_in_its_own_words() -> None:
    words = mpirun_argv(Mpirun("/opt/bin/mpirun", "hydra"), hosts_of(RANKS, is_this_machine=False))
    assert shlex.join(words) == "/opt/bin/mpirun -hosts n1:2,n2:2 -bind-to none -n 4"


def test_the_one_node_of_a_site_is_this_machine_whatever_its_name() -> None:
    here = hosts_of(RANKS[:2], is_this_machine=True)
    assert here == {"localhost": 2}
    words = mpirun_argv(Mpirun("mpirun", "hydra"), here)
    assert shlex.join(words) == "mpirun -launcher fork -hosts localhost:2 -bind-to none -n 2"


def test_ranks_share_variables_but_neither_devices_nor_unlike_numbers_of_threads() -> None:
    alike = shared_environment(
        LaunchConfig(allocator="glibc-tuned"), tuple(r._replace(accelerator=r.rank) for r in RANKS)
    )
    assert alike["OMP_NUM_THREADS"] == "2"
    assert alike["MALLOC_TRIM_THRESHOLD_"] == "-1"
    assert not any(name.startswith("CUDA") for name in alike)
    unlike = shared_environment(LaunchConfig(allocator="glibc-tuned"), (RANKS[0], RANKS[1]._replace(cores=(2,))))
    assert "OMP_NUM_THREADS" not in unlike
    assert unlike["MALLOC_TRIM_THRESHOLD_"] == "-1"


def test_cores_that_this_machine_lacks_are_refused_before_mpirun_is_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AS_ROOT.items():
        monkeypatch.setenv(name, value)
    put(folder, "mpirun", OPEN_MPI)
    site = Site(name="site", groups=(NodeGroup(slots=(Slot(cores=(4095,)),)),))
    plan = map_members(Scale(members=1, workers=1, system_scale=1), site, LaunchConfig())
    with pytest.raises(PlanError, match=r"The plan uses cores 4095, but this process may use only "):
        MpirunProcesses().check(planned_config(), plan, site)


def test_mpirun_starts_ranks_in_the_python_of_the_run_with_this_trainmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.launch.mpi.find_mpirun", lambda: Mpirun("/usr/bin/mpirun", "open-mpi"))
    config = planned_config(launch={"python": "/opt/envs/gcc12/bin/python", "allocator": "system", "threads": 2})
    site = Site(name="site", groups=(NodeGroup(slots=(Slot(cores=(0, 1)),) * 2, shared_cores=True),))
    (job,) = map_members(Scale(members=1, workers=2, system_scale=2), site, config.launch).jobs
    script = MpirunProcesses().script(JobRecord(RunFolder(Path("/runs/RUN")), config, site, job))
    assert script.replace(str(ROOT), "/checkout").splitlines()[-1] == (
        "/usr/bin/mpirun --host localhost:2 --map-by slot:OVERSUBSCRIBE --bind-to none -np 2 env OMP_NUM_THREADS=2 "
        "MKL_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 PYTHONUNBUFFERED=1 /opt/envs/gcc12/bin/python "
        "/checkout/src/trainmark/launch/other_python.py trainmark.train.worker /runs/RUN/jobs/0000/job.json --rank mpi "
        "--attempt 1 </dev/null"
    )


@pytest.mark.parametrize(
    ("flavour", "user_id", "environment", "is_refused"),
    [
        ("open-mpi", 0, {}, True),
        ("open-mpi", 0, {"OMPI_ALLOW_RUN_AS_ROOT": "1"}, True),
        ("open-mpi", 0, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, False),
        ("open-mpi", 0, {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}, False),
        ("open-mpi", 1000, {}, False),
        ("hydra", 0, {}, False),
    ],
)
def test_open_mpi_is_not_asked_to_run_as_root_unless_that_is_allowed_twice(
    flavour: Literal["open-mpi", "hydra"], user_id: int, environment: dict[str, str], is_refused: bool
) -> None:
    with pytest.raises(PlanError, match="refuses to run as root") if is_refused else nullcontext():
        check_root(Mpirun("/usr/bin/mpirun", flavour), user_id, environment)


def test_a_dry_run_as_root_is_refused_as_the_run_would_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("trainmark.launch.mpi.find_mpirun", lambda: Mpirun("/usr/bin/mpirun", "open-mpi"))
    monkeypatch.setattr("trainmark.launch.mpi.os.geteuid", lambda: 0)
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT", raising=False)
    config = resolve_config([parse_setting("launch.launcher=mpi"), parse_setting("ensemble.members=1")])
    with pytest.raises(PlanError, match="OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set"):
        plan_run(config, local_site(), Places.of(tmp_path), dry_run=True)
