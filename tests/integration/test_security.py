"""What a shared machine must be able to rely on: ports, file modes, no shell, no network, no secrets in records."""

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL
from tests.two_cores import on_two_cores
from trainmark.machine.network import Address
from trainmark.spec.plan import Rank
from trainmark.spec.run_folder import RunFolder
from trainmark.train.torch.process_group import _open_store

SOURCE = ROOT / "src" / "trainmark"


def test_the_rendezvous_listens_on_its_own_address_alone(tmp_path: Path) -> None:
    attempt = RunFolder(tmp_path).attempt(0, 1)
    rank = Rank(0, "n1", 0, (0,), None)
    store = _open_store(rank, 2, Address("127.0.0.2", "lo"), attempt)
    where = json.loads(attempt.rendezvous.read_text())
    assert where["address"] == "127.0.0.2"
    socket.create_connection(("127.0.0.2", where["port"]), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", where["port"]), timeout=5)
    del store


def test_a_run_leaves_only_what_the_umask_allows_and_no_secret_of_the_environment(tmp_path: Path) -> None:
    def before() -> None:
        on_two_cores()
        os.umask(0o027)

    secret = "hunter2-token"
    done = subprocess.run(
        [sys.executable, "-m", "trainmark", "run", *SMALL, "--members", "1", "--workers", "2", "--json"],
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "AWS_SECRET_ACCESS_KEY": secret, "SLURM_JWT": secret},
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    left = [tmp_path / "runs", *(tmp_path / "runs").rglob("*")]
    assert len(left) > 20
    assert [str(path) for path in left if path.stat().st_mode & 0o027] == []
    assert not [path for path in left if path.is_file() and secret.encode() in path.read_bytes()]


def calls_in(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def test_no_program_is_ever_called_through_a_shell() -> None:
    for path in SOURCE.rglob("*.py"):
        for call in calls_in(path):
            assert not any(word.arg == "shell" for word in call.keywords), path
            name = ast.unparse(call.func)
            assert name not in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"), path
            if name in ("subprocess.run", "subprocess.Popen"):
                assert not isinstance(call.args[0], ast.Constant | ast.JoinedStr), path


def test_nothing_can_be_fetched_at_run_time() -> None:
    reaching_out = {"urllib", "http", "requests", "ftplib", "httpx", "aiohttp", "torchvision"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & reaching_out, path
