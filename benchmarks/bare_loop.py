"""A hand-written PyTorch loop, as short as it gets: what trainmark's throughput is compared with.

Same model, data, batch size, optimizer, layout, threads and cores as `trainmark run`, but no events, no evaluation, no
checkpoints, no launcher. Trains until it is killed; each rank writes the ends of its steps
(monotonic clock) to a file in --folder.
"""

import argparse
import os
import time
from pathlib import Path

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--rank", type=int, required=True)
arguments.add_argument("--workers", type=int, required=True)
arguments.add_argument("--core", type=int, required=True)
arguments.add_argument("--samples", type=int, required=True)
arguments.add_argument(
    "--folder", type=Path, required=True, help="where the workers meet, and where the steps are left"
)
options = arguments.parse_args()
os.sched_setaffinity(0, {options.core})

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from trainmark.data.datasets.shapes import Shapes, ShapesSettings  # noqa: E402
from trainmark.train.torch.models.resnets import resnet_tiny  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(0)
split = Shapes(ShapesSettings(num_train=options.samples)).load("train")
images = ((torch.from_numpy(split.samples).float() - 128) / 64).permute(0, 2, 3, 1).contiguous()
labels = torch.from_numpy(split.labels)
model = resnet_tiny(num_classes=10, width=16).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, fused=True)
if options.workers > 1:
    store = f"file://{options.folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=options.rank, world_size=options.workers)
    model = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)

(options.folder / f"ready-{options.rank}").touch()
while not (options.folder / "go").exists():
    time.sleep(0.01)
rng = np.random.default_rng(0)
steps = options.samples // (32 * options.workers)
with (options.folder / f"steps-{options.rank}").open("w") as file:
    while True:
        order = torch.from_numpy(rng.permutation(options.samples)[: steps * 32 * options.workers])
        ends = [time.perf_counter()]
        for batch in order.view(steps, options.workers, 32)[:, options.rank]:
            optimizer.zero_grad(set_to_none=True)
            outputs = model(images.index_select(0, batch).permute(0, 3, 1, 2))
            loss = F.cross_entropy(outputs, labels.index_select(0, batch))
            loss.backward()
            optimizer.step()
            ends.append(time.perf_counter())
        file.write(" ".join(map(str, ends)) + "\n")
        file.flush()
