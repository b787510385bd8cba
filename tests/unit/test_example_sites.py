"""The sites of docs/sites are valid, and Slurm would be asked for what their nodes have."""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.written_clusters import written
from trainmark.launch.slurm.launcher import SlurmLauncher
from trainmark.machine.draft import draft_cluster
from trainmark.machine.site_file import site_toml
from trainmark.plan.explain import Source
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import read_site_file, resolve_config
from trainmark.spec.job_record import JobRecord
from trainmark.spec.run_folder import RunFolder
from trainmark.spec.site import Site

SITES = ROOT / "docs" / "sites"


def site(name: str) -> Site:
    return read_site_file(SITES / f"{name}.toml")


def scripts(name: str, **ensemble: int) -> str:
    """All scripts of a run on the site."""
    config, plan = make_plan(
        resolve_config([Source("test", {"ensemble": ensemble, "launch": {"launcher": "slurm"}})]), site(name)
    )
    launcher = SlurmLauncher()
    launcher.check(config, plan, site(name))
    records = [JobRecord(RunFolder(Path("/shared/runs/r")), config, site(name), job) for job in plan.jobs]
    return "\n".join([*map(launcher.script, records), *launcher.batch_scripts(records).values()])


@pytest.mark.parametrize(
    ("name", "nodes", "slots", "cores"),
    [
        ("cpu-two-socket", 120, 240, 32),  # 120 × 2
        ("four-gpus", 36, 144, 15),  # 36 × 4; (32 − 1) cores for two accelerators
        ("arm-one-socket", 24, 96, 12),  # 24 × 4
    ],
)
def test_an_example_has_the_slots_that_its_text_says(name: str, nodes: int, slots: int, cores: int) -> None:
    example = site(name)
    assert (example.num_nodes, example.num_slots) == (nodes, slots)
    assert {len(slot.cores) for group in example.groups for slot in group.slots} == {cores}


def test_every_example_is_tested_and_shown_in_the_guide() -> None:
    names = {path.stem for path in SITES.iterdir()}
    assert names == {"cpu-two-socket", "four-gpus", "arm-one-socket"}
    guide = (ROOT / "docs" / "clusters.md").read_text()
    for name in names:
        assert f"(sites/{name}.toml)" in guide


def test_a_member_of_one_worker_gets_one_processor_of_the_cpu_cluster() -> None:
    text = scripts("cpu-two-socket", members=4, workers=1)
    for line in ("--partition=standard", "--account=hpcbench", "--cpus-per-task=32", "--constraint=icelake"):
        assert f"#SBATCH {line}\n" in text
    assert f"#SBATCH --mem={124 * 1024}M\n" in text
    assert "\nmodule load python/3.11 gperftools\n" in text
    assert "--mpi=pmix" in text


def test_a_member_of_four_workers_gets_the_accelerators_of_a_node_in_the_container() -> None:
    text = scripts("four-gpus", members=2, workers=4)
    for line in ("--partition=gpu", "--gres=gpu:a100:4", "--ntasks-per-node=4", "--cpus-per-task=15", "--exclusive"):
        assert f"#SBATCH {line}\n" in text
    assert "apptainer exec --nv --bind /shared,/local /shared/images/trainmark.sif /opt/venv/bin/python" in text


def test_ranks_of_the_arm_cluster_bind_themselves() -> None:
    text = scripts("arm-one-socket", members=2, workers=4)
    assert "--cpu-bind=none" in text
    assert "/shared/trainmark/venv-aarch64/bin/python" in text


def test_the_draft_in_the_guide_is_what_is_drafted() -> None:
    guide = (ROOT / "docs" / "clusters.md").read_text()
    shown = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert shown == [site_toml(draft_cluster(written("two-socket")))]
