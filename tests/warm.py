"""trainmark in a process that is copied from one which has loaded torch already, instead of started anew.

Loading torch takes seconds of each rank, more than most tests train. A copy runs the same code with the same signals,
exit codes, children and files; only what must be read at the start of a program is missing (LD_PRELOAD, PYTHONPATH).
Tests of how programs start are done without: test_cli.py, test_plugin.py, test_mpi.py, all of Slurm, and some of
test_run.py and test_faults.py.
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
from tests.last_words import be_ready_to_speak, last_words
from tests.two_cores import CORES
from tests.waiting import wait_until
from trainmark.launch.commands import rank_environment
from trainmark.machine.local_site import local_site
from trainmark.plan.make import default_allocator
from trainmark.spec.config import LaunchConfig
from trainmark.spec.plan import Rank

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("torch._dynamo", "torch.distributed.tensor", "torch.utils.flop_counter", "scipy.stats")
# What a new Python does at these.
AT_START = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGPIPE: signal.SIG_IGN,
    **dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2), signal.SIG_DFL),
}
RANK = (sys.executable, "-P", "-m", "trainmark.train.worker")
DONE = b"\n"


class WarmProcess:
    """`trainmark …` in the background, used like a subprocess.Popen with pipes; its output is kept in files."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._output, self._errors = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        self._told = socket.socket(socket.AF_UNIX)
        self._told.connect(_server())
        request = json.dumps({"argv": arguments, "folder": str(folder), "environment": environment}).encode() + DONE
        socket.send_fds(self._told, [request], [self._output.fileno(), self._errors.fileno()])
        self.pid = int(self._answer())
        self.returncode: int | None = None

    def send_signal(self, signum: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; negative for a signal."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(self._answer())
            except TimeoutError:
                stacks = last_words(self.pid, self._folder)
                raise AssertionError(f"no end after {timeout} s\n{_text(self._errors)}\n{stacks}") from None
            self._told.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What was printed on standard output and standard error, once it has ended."""
        self.wait(timeout)
        return _text(self._output), _text(self._errors)

    def _answer(self) -> bytes:
        answer = b""
        while not answer.endswith(DONE):
            more = self._told.recv(1)  # the next answer may have come as well
            if not more:
                raise RuntimeError("the process that is copied has gone")
            answer += more
        return answer


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@functools.cache
def _server() -> str:
    """Where the process listens that is copied; it ends with this one."""
    folder = Path(tempfile.mkdtemp(prefix="trainmark-warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = str(folder / "socket")
    launch = LaunchConfig(allocator=default_allocator(local_site()))
    as_of_ranks = rank_environment(launch, Rank(0, "", 0, CORES[:1], None))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **as_of_ranks}
    process = subprocess.Popen([sys.executable, "-m", __name__, address], cwd=ROOT, env=environment)
    wait_until(lambda: Path(address).exists() or process.poll() is not None)
    return address


# What follows runs in the process that is copied, and in its copies.


def serve(address: str) -> Never:
    """Copies itself for each request, until the one who asks has gone."""
    from trainmark.machine.processes import exit_with_parent

    exit_with_parent(os.getppid(), signal.SIGKILL)
    be_ready_to_speak()
    own = [module.name for module in pkgutil.walk_packages(trainmark.__path__, "trainmark.")]
    for name in (*LIBRARIES, *own):
        if not name.endswith(".__main__"):
            import_module(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen()
    Path(f"{address}.new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for the copies
    while True:
        asking, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _attend(asking)
        asking.close()


def _attend(asking: socket.socket) -> Never:
    """Starts a copy for one request, says its number, waits for its end and says its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, descriptors, _, _ = socket.recv_fds(asking, 65536, 2)
    while not data.endswith(DONE):
        data += asking.recv(65536)
    request = json.loads(data)
    pid = os.fork()
    if pid == 0:
        asking.close()
        _become(request["environment"], *descriptors, lambda: _command_line(request["argv"], request["folder"]))
    asking.sendall(str(pid).encode() + DONE)
    _, status = os.waitpid(pid, 0)
    asking.sendall(str(os.waitstatus_to_exitcode(status)).encode() + DONE)
    os._exit(0)


def _become(environment: dict[str, str], output: int, errors: int, run: Callable[[], object]) -> Never:
    """This process does what a new program would do: its own streams, variables and signals."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.closerange(3, 64)
        os.environ.clear()
        os.environ |= environment
        for signum, at_start in AT_START.items():
            signal.signal(signum, at_start)
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as the interpreter does at the end of a program
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
    """A rank that is copied from its launcher, used like the subprocess.Popen that stands there otherwise."""

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
