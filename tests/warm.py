"""trainmark in a process forked from one that has already imported torch, instead of a new one.

Importing torch takes seconds per rank, longer than most tests train. A fork runs the same code with the same signals,
exit codes, children and files, and PYTHONPATH is searched; only what takes effect at program start is missing
(LD_PRELOAD). Tests of program start do without: most of test_cli.py, test_mpi.py, all of Slurm, and some of
test_plugin.py, test_run.py and test_faults.py.
"""

import atexit
import functools
import json
import math
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Never

import trainmark
from tests.thread_stacks import dump_stacks, register_stack_dump
from tests.two_cores import CORES
from tests.waiting import TIMEOUT_S, wait_until
from trainmark.launch.commands import rank_environment
from trainmark.machine.local_site import local_site
from trainmark.plan.make import default_allocator
from trainmark.spec.config import LaunchConfig
from trainmark.spec.plan import Rank

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = (
    *("torch._dynamo", "torch.distributed.tensor", "torch.utils.flop_counter", "scipy.stats"),
    *("matplotlib.figure", "matplotlib.backends.backend_svg", "matplotlib.backends.backend_pdf", "jinja2"),
)
# Signal handlers of a new Python process.
AT_START = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGPIPE: signal.SIG_IGN,
    **dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2), signal.SIG_DFL),
}
RANK = (sys.executable, "-P", "-m", "trainmark.train.worker")
DONE = b"\n"


class WarmProcess:
    """`trainmark …` in the background, with the interface of subprocess.Popen; output goes to files."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._output, self._errors = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(_server())
        request = json.dumps({"argv": arguments, "folder": str(folder), "environment": environment}).encode() + DONE
        socket.send_fds(self._socket, [request], [self._output.fileno(), self._errors.fileno()])
        self.pid = int(self._reply())
        self.returncode: int | None = None

    def send_signal(self, signum: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = TIMEOUT_S) -> int:
        """Waits and returns the exit code; negative for a signal."""
        if self.returncode is None:
            self._socket.settimeout(timeout)
            try:
                self.returncode = int(self._reply())
            except TimeoutError:
                stacks = dump_stacks(self.pid, self._folder)
                raise AssertionError(f"still running after {timeout} s\n{_text(self._errors)}\n{stacks}") from None
            self._socket.close()
        return self.returncode

    def communicate(self, timeout: float = TIMEOUT_S) -> tuple[str, str]:
        """Waits and returns standard output and standard error."""
        self.wait(timeout)
        return _text(self._output), _text(self._errors)

    def _reply(self) -> bytes:
        answer = b""
        while not answer.endswith(DONE):
            more = self._socket.recv(1)  # one byte, since the next reply may have arrived too
            if not more:
                raise RuntimeError("the fork server has exited")
            answer += more
        return answer


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@functools.cache
def _server() -> str:
    """Starts the fork server, which ends with this process; returns its socket address."""
    folder = Path(tempfile.mkdtemp(prefix="trainmark-warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = str(folder / "socket")
    launch = LaunchConfig(allocator=default_allocator(local_site()))
    as_of_ranks = rank_environment(launch, Rank(0, "", 0, CORES[:1], None))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **as_of_ranks}
    process = subprocess.Popen([sys.executable, "-m", __name__, address], cwd=ROOT, env=environment)
    wait_until(lambda: Path(address).exists() or process.poll() is not None)
    return address


# Below: code of the fork server and its forks.


def serve(address: str) -> Never:
    """Forks for each request, until the parent exits."""
    from trainmark.machine.processes import exit_with_parent

    exit_with_parent(os.getppid(), signal.SIGKILL)
    register_stack_dump()
    modules = [module.name for module in pkgutil.walk_packages(trainmark.__path__, "trainmark.")]
    for name in (*LIBRARIES, *modules):
        if not name.endswith(".__main__"):
            import_module(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen()
    Path(f"{address}.new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors of forks are not waited for
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _serve_request(client)
        client.close()


def _serve_request(client: socket.socket) -> Never:
    """Serves one request: forks, replies with the PID, waits, and replies with the exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(client, 65536, 2)
    while not data.endswith(DONE):
        data += client.recv(65536)
    request = json.loads(data)
    pid = os.fork()
    if pid == 0:
        client.close()
        _become(request["environment"], *descriptors, lambda: _command_line(request["argv"], request["folder"]))
    client.sendall(str(pid).encode() + DONE)
    _, status = os.waitpid(pid, 0)
    client.sendall(str(os.waitstatus_to_exitcode(status)).encode() + DONE)
    os._exit(0)


def _become(environment: dict[str, str], output: int, errors: int, run: Callable[[], object]) -> Never:
    """Sets up streams, variables and signals like a new process, and runs."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.closerange(3, 64)
        os.environ.clear()
        os.environ |= environment
        sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        for signum, at_start in AT_START.items():
            signal.signal(signum, at_start)
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as the interpreter does at exit
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _command_line(arguments: list[str], folder: str) -> None:
    from trainmark.cli.main import main
    from trainmark.launch import processes

    os.chdir(folder)
    os.sched_setaffinity(0, CORES)
    start = processes._open
    processes._open = lambda command: WarmRank(command) if command.argv[:4] == RANK else start(command)
    sys.argv = ["trainmark", *arguments]
    main()


class WarmRank:
    """A rank forked from its launcher, with the interface of subprocess.Popen."""

    stdin = None

    def __init__(self, command: Any) -> None:
        arguments = list(command.argv[len(RANK) :])
        self._exit_code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            log = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            _become({**os.environ, **command.environment}, log, log, lambda: _worker(arguments))

    def poll(self) -> int | None:
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self._exit_code

    def wait(self, timeout: float = math.inf) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a rank", timeout)
            time.sleep(0.005)
        return code

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _worker(arguments: list[str]) -> None:
    from trainmark.train.worker import main

    main(arguments)


if __name__ == "__main__":
    serve(sys.argv[1])
