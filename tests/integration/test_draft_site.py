"""A site file is drafted from a real Slurm, which then runs jobs as the file says."""

import json
import re
import tomllib
from pathlib import Path

from tests.cluster import Cluster
from tests.conftest import Command


def draft(trainmark: Command, cluster: Cluster, tmp_path: Path) -> str:
    """The text of the drafted file, which then lies in site.toml."""
    done = trainmark("machine", "--draft-site", **cluster.environment())
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "site.toml").write_text(done.stdout)
    return done.stdout


def test_the_draft_tells_what_the_cluster_was_configured_with(
    trainmark: Command, cluster: Cluster, tmp_path: Path
) -> None:
    site = tomllib.loads(draft(trainmark, cluster, tmp_path))
    cores = cluster.shape.cores_per_node
    halves = [{"cores": "0"}, {"cores": "1"}] if cores == 2 else None
    (group,) = site["groups"]
    assert (group["partition"], group["count"]) == ("debug", 4)
    assert len(group["slots"]) == 2
    assert halves is None or group["slots"] == halves
    # Half of a node's memory, rounded down to a tenth of a GiB.
    gib = cluster.shape.memory_per_node_mebibytes / 2 / 1024
    assert gib - 1 < group["memory_gib_per_slot"] <= gib
    # slurm.conf has TaskPlugin=task/affinity and no time limit.
    assert site["slurm"] == {"binding": "slurm"}


def test_slurm_runs_jobs_as_the_draft_says(trainmark: Command, cluster: Cluster, tmp_path: Path) -> None:
    draft(trainmark, cluster, tmp_path)
    found = trainmark("preflight", "--site", "site.toml", "--json", **cluster.environment())
    assert found.returncode == 0, found.stderr
    assert not [each for each in json.loads(found.stdout)["findings"] if each["verdict"] == "problem"]
    options = ["--launcher", "slurm", "--site", "site.toml", "--members", "2", "--workers", "2", "--dry-run", "--json"]
    planned = trainmark("run", *options, **cluster.environment())
    assert planned.returncode == 0, planned.stderr
    for name, script in json.loads(planned.stdout)["scripts"].items():
        file = tmp_path / Path(name).name
        file.write_text(script)
        cluster.run("sbatch", "--test-only", str(file))


def test_a_drained_node_is_counted_out(trainmark: Command, cluster: Cluster, tmp_path: Path) -> None:
    cluster.run("scontrol", "update", "nodename=n3", "state=drain", "reason=State=IDLE by somebody")
    try:
        text = draft(trainmark, cluster, tmp_path)
    finally:
        cluster.set_up("n3")
    assert tomllib.loads(text)["groups"][0]["count"] == 3
    assert "# n[1-2,4]: 1 socket × " in text
    assert "# Not counted, because they are unavailable: n3 (1 drained)." in text


def test_an_unreachable_controller_is_reported_in_one_line(
    trainmark: Command, cluster: Cluster, tmp_path: Path
) -> None:
    # Nobody listens at port 1: as if the controller had ended.
    conf = (cluster.folder / "slurm.conf").read_text()
    (tmp_path / "slurm.conf").write_text(re.sub(r"^SlurmctldPort=\d+$", "SlurmctldPort=1", conf, flags=re.MULTILINE))
    without = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    done = trainmark("machine", "--draft-site", **without)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("trainmark: slurmctld is unreachable: ")
    assert "Unable to contact slurm controller" in done.stderr
    assert done.stderr.endswith("trainmark machine --draft-site --no-slurm.\n")
    assert done.stderr.count("\n") == 1
    alone = trainmark("machine", "--draft-site", "--no-slurm", **without)
    assert alone.returncode == 0
    assert "slurm" not in tomllib.loads(alone.stdout)


def test_without_slurm_the_draft_is_the_site_that_a_run_uses(trainmark: Command, tmp_path: Path) -> None:
    done = trainmark("machine", "--draft-site", "--no-slurm")
    (tmp_path / "site.toml").write_text(done.stdout)
    drafted = trainmark("run", "--dry-run", "--json", "--site", "site.toml")
    alone = trainmark("run", "--dry-run", "--json")
    assert json.loads(drafted.stdout)["plan"] == json.loads(alone.stdout)["plan"]
    as_json = json.loads(trainmark("machine", "--draft-site", "--no-slurm", "--json").stdout)
    assert as_json == json.loads(trainmark("machine", "--json").stdout, object_hook=without_nothing)["site"]


def without_nothing(table: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in table.items() if value is not None}


def test_options_that_do_not_go_together_are_refused(trainmark: Command) -> None:
    alone = trainmark("machine", "--no-slurm")
    assert (alone.returncode, alone.stdout) == (2, "")
    assert alone.stderr.endswith("Add --draft-site.\n")
    measured = trainmark("machine", "--draft-site", "--measure")
    assert (measured.returncode, measured.stdout) == (2, "")
    assert measured.stderr.endswith("Remove one.\n")
