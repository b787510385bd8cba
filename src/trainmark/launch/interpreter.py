"""Checks the Python interpreter of launch.python by running it: its version, and imports of what ranks need."""

import json
import subprocess
from functools import cache
from typing import Any, NoReturn

from trainmark.launch.commands import module_argv
from trainmark.launch.other_python import OLDEST
from trainmark.spec.config import RunConfig
from trainmark.spec.engine_offer import find_engine
from trainmark.spec.errors import PlanError
from trainmark.spec.registries import DATASETS, QUALITIES
from trainmark.spec.site import Site

TIMEOUT_S = 180.0  # importing torch from busy shared storage can take a minute
PACKAGES = ("numpy", "psutil", "pydantic")
DISTRIBUTIONS = {"PIL": "pillow", "pynvml": "nvidia-ml-py"}  # where pip's name is not the module's
OR_UNSET = "or do not set launch.python"


def modules_of_rank(config: RunConfig) -> tuple[str, ...]:
    """Returns the modules that a rank of this run imports, packages first, so that all missing ones are found."""
    offer = find_engine(config.train.engine)
    packages = [*PACKAGES, *(name for name in offer.packages if name.isidentifier())]
    if config.train.communication == "mpi":
        packages.append("mpi4py")
    targets = [offer.implementation]
    targets += [
        name if ":" in name else registry[name]
        for registry, name in ((DATASETS, config.dataset), (QUALITIES, config.quality))
    ]
    own = ("trainmark.train.worker", "trainmark.train.member")
    return (*packages, *own, *(target.partition(":")[0] for target in targets))


def check_interpreter(python: str, site: Site, modules: tuple[str, ...]) -> None:
    """Raises if this Python cannot be run here, is too old or cannot import the modules."""
    answer = _ask(python, (*module_argv("--check", site, python), *modules))
    if tuple(answer["version"]) < OLDEST:
        _refuse(python, f"is Python {'.'.join(map(str, answer['version']))}, but ranks need 3.11 or newer")
    if answer["missing"]:
        packages = list(dict.fromkeys(name.partition(".")[0] for name in answer["missing"]))
        install = " ".join(DISTRIBUTIONS.get(package, package) for package in packages)
        raise PlanError(
            f"launch.python={python} cannot import {', '.join(packages)}, which ranks need. "
            f"Run {python} -m pip install {install}, {OR_UNSET}."
        )
    if answer["error"] is not None:
        _refuse(python, f"cannot import what ranks need: {answer['error'].splitlines()[0]}")


@cache  # a study plans many runs with one interpreter
def _ask(python: str, argv: tuple[str, ...]) -> dict[str, Any]:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    except OSError as error:
        _refuse(python, f"cannot be run: {error.strerror}")
    except subprocess.TimeoutExpired:
        _refuse(python, f"did not import what ranks need within {TIMEOUT_S:.0f} s")
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
        return answer
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}, no output"
        _refuse(python, f"did not run as Python: {last}")


def _refuse(python: str, reason: str) -> NoReturn:
    raise PlanError(
        f"launch.python={python} {reason.rstrip('.')}. Choose the Python of another environment, {OR_UNSET}."
    )
