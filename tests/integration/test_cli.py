"""The command line: fast help, one-line errors, exit codes, nothing touched on a dry run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.two_cores import CORES
from trainmark import __version__

SCORE = "score --gflop-per-sample 1 --samples 1 --epochs 1 --minutes 1 --quality 1 --target 1 --exponent 1"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_help_loads_none_of_the_libraries_that_take_long() -> None:
    code = """
import sys
sys.argv = ["trainmark", "--help"]
from trainmark.cli.main import main
try:
    main()
except SystemExit:
    print(sorted({"torch", "numpy", "scipy", "pydantic", "matplotlib", "psutil"} & set(sys.modules)))
"""
    done = python(code)
    assert "grows an ensemble" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["run", "--dry-run"],
        ["list", "models"],
        ["machine"],
        ["results"],
        SCORE.split(),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_planning_and_reading_import_no_torch(arguments: list[str], tmp_path: Path) -> None:
    code = f"""
import sys, os
os.chdir({str(tmp_path)!r})
sys.argv = ["trainmark", *{arguments!r}]
from trainmark.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert "torch" not in sys.modules
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_a_dry_run_shows_plan_and_commands_and_touches_nothing(trainmark: Command, tmp_path: Path) -> None:
    done = trainmark("run", "--members", "3", "--dry-run")
    assert done.returncode == 0
    assert "3 members × 1 worker = system scale 3; 2 members at a time, 2 waves" in done.stdout
    assert "2 of 2 worker slots used, all 2 cores" in done.stdout
    assert done.stdout.count("-m trainmark.train.worker") == 3
    document = json.loads(trainmark("run", "--members", "3", "--dry-run", "--json").stdout)
    assert document["plan"]["system_scale"] == 3
    assert len(document["scripts"]) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_a_million_members_shows_the_first_and_counts_the_others(trainmark: Command) -> None:
    done = trainmark("run", "--members", "1000000", "--dry-run")
    assert "1,000,000 members × 1 worker = system scale 1,000,000; 2 members at a time, 500,000 waves" in done.stdout
    assert done.stdout.count("-m trainmark.train.worker") == 4
    assert "similar scripts of 999,996 more members" in done.stdout
    document = json.loads(trainmark("run", "--members", "10000", "--dry-run", "--json").stdout)
    assert (len(document["scripts"]), len(document["plan"]["mapping"]), document["members_left_out"]) == (
        100,
        100,
        9900,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--set dataset=imagenet --set data.path=/nope", "/nope"),
        ("--runs-dir /dev/null/runs", "Runs cannot be stored in /dev/null/runs: /dev/null is not a folder"),
        ("--set train.batch_size=5000", "1 worker × batch size 5000 = 5000 samples per step, but"),
        (
            "--set dataset=imagenet --set data.num_train=5",
            "10 classes need as many images in each split",
        ),
    ],
)
def test_a_dry_run_refuses_what_the_run_would_refuse(
    warm_trainmark: Command, tmp_path: Path, arguments: str, message: str
) -> None:
    said = [warm_trainmark("run", *arguments.split(), *more) for more in ([], ["--dry-run"])]
    assert {done.returncode for done in said} <= {1, 2}
    assert said[0].stderr == said[1].stderr
    assert message in said[1].stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run --members 3 --workers 2 --system-scale 8", "3 members × 2 workers = 6, but the system scale is 8"),
        ("run --members 0", "--members must be at least 1, but got 0"),
        ("run --workers 999", "A system scale of"),
        ("run --members 1 --workers 999", "A member of 999 workers does not fit"),
        ("run image-clasification", "Did you mean 'image-classification'?"),
        ("run --size huge", "has no size 'huge'"),
        ("run --set train.epoch=3", "Did you mean 'epochs'?"),
        ("run --set nonsense", "--set needs key=value"),
        ("run --config none.toml", "none.toml does not exist."),
        ("run --site none.toml", "none.toml does not exist."),
        ("run --launcher slrm", "There is no launcher 'slrm'"),
        ("show", "No runs in"),
        ("results --state complet", "Did you mean 'complete'?"),
        ("show nothing --runs-dir elsewhere", "/elsewhere, which does not exist. Start one with"),
        ("list modles", "Did you mean 'models'?"),
        ("flops resnet51-v1", "Did you mean 'resnet50-v1"),
        ("flops resnet50-v1 --input 3x0x3", "is not an input shape"),
        ("flops resnet50-v1 --input 3x8", "has 3 dimensions, such as 3 × 224 × 224, but 3 × 8 has 2"),
        (SCORE.replace("sample 1 ", "sample 1e308 ").replace("--epochs 1 ", "--epochs 1e10 "), "no finite FLOPS"),
        (SCORE.replace("--target 1", "--target 0"), "--target must be more than 0"),
        (SCORE.replace("--exponent 1", "--exponent 1e9").replace("--quality 1", "--quality 0.5"), "smaller --exponent"),
        (SCORE.replace("--quality 1", "--quality 75.1"), "write 0.751 for 75.1 %, or give both in percent"),
        (SCORE.replace("--target 1", "--target 76.3"), "write 0.763 for 76.3 %, or give both in percent"),
        (SCORE.replace("--quality 1", "--quality 751").replace("--target 1", "--target 76"), "percent up to 100"),
        ("run --set evaluate.target_quality=80", "top1 is at most 1, but got 80; write 0.8 for 80 %"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    warm_trainmark: Command, tmp_path: Path, arguments: str, message: str
) -> None:
    done = warm_trainmark(*arguments.split())
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("run --members two", "--members must be a whole number, but got 'two'. See: trainmark run --help"),
        ("score --minutes nan", "--minutes must be at least 0, but got 'nan'. See: trainmark score --help"),
        ("run --nope", "No such option: --nope. See: trainmark run --help"),
        ("nope", "No such command 'nope'. See: trainmark --help"),
        ("run resnet50", "'resnet50' is a model, not a workload. Choose --set model=resnet50-v1.5; workloads:"),
    ],
)
def test_wrong_usage_is_one_line_in_our_own_words(warm_trainmark: Command, arguments: str, line: str) -> None:
    done = warm_trainmark(*arguments.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"trainmark: {line}")


def test_the_version_needs_no_command(trainmark: Command) -> None:
    assert trainmark("--version").stdout == f"{__version__}\n"


def test_a_terminal_that_knows_only_ascii_is_no_error(trainmark: Command) -> None:
    done = trainmark("run", "--dry-run", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 members ? 1 worker = system scale 2" in done.stdout


def test_an_accelerator_that_is_not_there_is_refused(trainmark: Command, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        f'name = "s"\n[[groups]]\nslots = [{{cores = "{CORES[0]}", accelerator = 7}}]\n'
    )
    done = trainmark("run", "--site", "site.toml", "--dry-run")
    assert done.returncode == 2
    assert "accelerator 7, but this machine does not have it" in done.stderr


def test_debug_shows_the_traceback(trainmark: Command) -> None:
    assert "Traceback" in trainmark("--debug", "show").stderr


def test_a_global_batch_larger_than_the_bootstrap_is_refused_before_anything_starts(
    trainmark: Command, tmp_path: Path
) -> None:
    done = trainmark("run", "--set", "data.num_train=20", "--set", "train.batch_size=64")
    assert done.returncode == 2
    assert "samples per step, but the member's bootstrap has" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "runs_dir", "message"),
    [
        ("run", "file/runs", "file is not a folder"),
        ("run", "file", "file is not a folder"),
        ("run", "/proc/runs", "/proc is a pseudo file system"),
        ("run --dry-run", "file", "file is not a folder"),
        ("results", "file", "Not a directory"),
        ("results", "missing", "No such file or directory"),
        ("show", "file", "Not a directory"),
        ("status", "file", "Not a directory"),
        ("report", "missing", "which does not exist"),
        ("resume latest", "missing", "which does not exist"),
        ("cancel latest", "missing", "which does not exist"),
    ],
)
def test_a_runs_folder_that_cannot_be_used_is_one_line_and_exit_code_2(
    warm_trainmark: Command, tmp_path: Path, arguments: str, runs_dir: str, message: str
) -> None:
    (tmp_path / "file").write_text("")
    done = warm_trainmark(*arguments.split(), "--runs-dir", runs_dir)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert ". Name another" in done.stderr or "--runs-dir" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_score_reproduces_fujitsus_published_figure(trainmark: Command) -> None:
    arguments = "--gflop-per-sample 23 --samples 1280000 --epochs 90 --minutes 1.2 --quality 0.751 --target 0.763"
    assert "31.41 PFLOPS" in trainmark("score", *arguments.split(), "--exponent", "10").stdout
    document = json.loads(trainmark("score", *arguments.split(), "--exponent", "10", "--json").stdout)
    assert document["vflops"] == pytest.approx(31.41e15, rel=1e-3)


def test_flops_of_resnet50_are_those_of_the_facts(trainmark: Command) -> None:
    for model, forward, training in (("resnet50-v1", 7.7159, 22.9118), ("resnet50-v1.5", 8.1784, 24.2991)):
        document = json.loads(trainmark("flops", model, "--json").stdout)
        exact = document["conventions"]["exact"]
        assert exact["forward"] / 1e9 == pytest.approx(forward, abs=5e-5)
        assert exact["training"] / 1e9 == pytest.approx(training, abs=5e-5)


def test_machine_tells_what_the_cores_can_do(trainmark: Command) -> None:
    document = json.loads(trainmark("machine", "--measure", "--json").stdout)
    ceiling = document["ceiling"]
    best = max(ceiling["kernels"], key=lambda name: ceiling["kernels"][name]["flops"])
    assert (ceiling["kernel"], ceiling["flops"]) == (best, ceiling["kernels"][best]["flops"])
    assert {"torch.mm 1024", "numpy.matmul 1024"} <= set(ceiling["kernels"])
    assert all(kernel["n"] >= 3 and kernel["flops"] >= kernel["median_flops"] for kernel in ceiling["kernels"].values())
    assert ceiling["cores"] == 2
    assert all((each["others_s"] is None) == (ceiling["unwatched"] is not None) for each in ceiling["rounds"])
    assert document["machine"]["cores"] >= 1


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "trainmark", "list", "metrics", "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_damaged_runs_are_one_line_and_do_not_hide_the_others(warm_trainmark: Command, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "plan.json").write_text("{}")
    listed = json.loads(warm_trainmark("results", "--json").stdout)
    assert [(row["run_id"], row["state"]) for row in listed] == [("one", "unreadable"), ("two", "unreadable")]
    for command in ("show", "resume", "status"):
        done = warm_trainmark(command, "one")
        assert done.returncode == 2
        assert "cannot be read" in done.stderr
        assert done.stderr.count("\n") == 1
