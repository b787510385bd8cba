"""Torch's compiler is loaded when something is compiled, not when a model is counted or trained without it."""

import subprocess
import sys

# Each use in a fork of the trained process.
SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
from trainmark.workloads.eager import skip_compiler
from trainmark.workloads.flops.count import count_model

skip_compiler()
counts = count_model("resnet-tiny", {})
model = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.ones_(model.weight)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
workers = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
workers(torch.ones(1, 2)).sum().backward()
optimizer.step()
dist.destroy_process_group()
import torch.distributed.tensor  # has itself inspected
is_loaded = lambda: "torch._dynamo.eval_frame" in sys.modules
print(counts["parameters"], model.weight.tolist(), is_loaded(), flush=True)
for use in (
    lambda: torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).tolist(),
    lambda: torch._dynamo.utils.counters["unknown"],
):
    if os.fork() == 0:
        print(use(), is_loaded(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_the_compiler_is_loaded_by_the_first_that_uses_it_and_not_by_training() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["78042 [[0.5, 0.5]] False", "[2.0] True", "Counter() True"]
