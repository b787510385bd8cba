"""A hand-written PyTorch script for one GPU: what `trainmark run` with synthetic data is compared with.

channels-last, bf16 autocast, fused SGD, and torch.compile unless --eager. Prints images per second as JSON.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F

from trainmark.workloads.find import find_card

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--model", required=True)
arguments.add_argument("--pixels", type=int, required=True)
arguments.add_argument("--batch", type=int, required=True)
arguments.add_argument("--steps", type=int, required=True)
arguments.add_argument("--eager", action="store_true")
arguments.add_argument("--torchvision", action="store_true", help="its ResNet of the same name instead of ours")
options = arguments.parse_args()

torch.backends.cudnn.benchmark = True
if options.torchvision:
    import torchvision

    plain = getattr(torchvision.models, options.model.split("-")[0])()
else:
    plain = find_card(options.model).build("torch", {})
plain = plain.cuda().to(memory_format=torch.channels_last)
model = plain if options.eager else torch.compile(plain)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5, fused=True)
images = torch.randn(options.batch, 3, options.pixels, options.pixels, device="cuda")
images = images.to(memory_format=torch.channels_last)
labels = torch.randint(10, (options.batch,), device="cuda")


def step() -> None:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()


for _ in range(20):
    step()
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(options.steps):
    step()
torch.cuda.synchronize()
print(json.dumps({"images_per_s": options.steps * options.batch / (time.perf_counter() - start)}))
