"""The same code on an accelerator, where there is one."""

import json

import pytest

from tests.conftest import SMALL, Command
from trainmark.machine.accelerators import find_accelerators


@pytest.mark.skipif(not find_accelerators(), reason="this machine has no accelerator")
def test_a_run_on_an_accelerator_gives_a_valid_result(trainmark: Command) -> None:
    done = trainmark("run", *SMALL, "--members", "1", "--workers", "1", "--json", CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "complete"
    assert result["plan"]["mapping"][0]["ranks"][0]["accelerator"] == 0
    assert result["metrics"]["peak_memory_bytes"]["detail"]["where"] == "accelerator"
