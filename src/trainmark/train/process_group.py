"""The workers of one member find each other and act together."""

import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import Store, TCPStore

from trainmark.spec.files import read_json, write_json
from trainmark.spec.plan import Rank
from trainmark.spec.run_folder import AttemptFolder

TIMEOUT = timedelta(minutes=10)
POLL_S = 0.02


def join_group(rank: Rank, workers: int, attempt: AttemptFolder, device: torch.device) -> None:
    """This rank is in the member's process group; alone, it needs none."""
    if workers == 1:
        return
    store = _open_store(rank, workers, attempt)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank.rank, world_size=workers, timeout=TIMEOUT)


def _open_store(rank: Rank, workers: int, attempt: AttemptFolder) -> Store:
    """Rank 0 opens a port that the system chooses and leaves it in a file: no port can be taken twice."""
    address = "127.0.0.1"
    if rank.rank == 0:
        store = TCPStore(address, 0, workers, is_master=True, timeout=TIMEOUT, wait_for_workers=False)
        write_json(attempt.rendezvous, {"address": address, "port": store.port})
        return store
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    while not attempt.rendezvous.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank 0 did not say within {TIMEOUT} how to reach it")
        time.sleep(POLL_S)
    port = read_json(attempt.rendezvous)["port"]
    return TCPStore(address, port, workers, is_master=False, timeout=TIMEOUT)


def leave_group() -> None:
    """The group is no more."""
    if dist.is_initialized():
        dist.destroy_process_group()


def barrier() -> None:
    """Every worker of the member has come here."""
    if dist.is_initialized():
        dist.barrier()


def share_model(model: nn.Module) -> nn.Module:
    """The model, wrapped so that backward averages gradients over the workers."""
    if not dist.is_initialized():
        return model
    # Batch-norm statistics stay each worker's own while training; `average_buffers` joins them before they are used.
    with warnings.catch_warnings():
        # torch 2.13 renames broadcast_buffers; torch 2.11 knows only that name.
        warnings.simplefilter("ignore", FutureWarning)
        return nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)


def average_buffers(model: nn.Module) -> None:
    """Running statistics are the workers' mean, so that all evaluate the same model."""
    if not dist.is_initialized():
        return
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """The rows of all workers, worker after worker; worker i brings counts[i] of them."""
    if not dist.is_initialized():
        return rows
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
