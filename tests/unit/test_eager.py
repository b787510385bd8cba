"""Torch's compiler is loaded when something is compiled, not when a model is counted or trained without it."""

import subprocess
import sys

WITHOUT = """
import sys
import torch
from trainmark.workloads.eager import skip_compiler
from trainmark.workloads.flops.count import count_model

skip_compiler()
counts = count_model("resnet-tiny", {})
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.5)
weight.sum().backward()
optimizer.step()
import torch.distributed.tensor  # has itself inspected
loaded = "torch._dynamo.eval_frame" in sys.modules
compiled = torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
print(counts["parameters"], weight.tolist(), loaded, compiled.tolist(), "torch._dynamo.eval_frame" in sys.modules)
"""


def test_the_compiler_is_loaded_by_the_first_that_compiles_only() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "78042 [0.5, 0.5] False [2.0] True\n"
