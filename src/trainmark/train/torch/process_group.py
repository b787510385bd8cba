"""The process group of one member: rendezvous, barrier, gather."""

import os
import socket
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store, TCPStore

from trainmark.machine.network import Address, address_for_other_nodes, address_within_node
from trainmark.machine.storage import read_when_visible
from trainmark.spec.files import read_json, write_json
from trainmark.spec.layout import ParallelLayout
from trainmark.spec.plan import Rank
from trainmark.spec.run_folder import AttemptFolder
from trainmark.train.engine import RankContext
from trainmark.train.torch.protocols import WorkerGroup

TIMEOUT = timedelta(minutes=10)
POLL_S = 0.02


def join_group(context: RankContext, device: torch.device) -> tuple[WorkerGroup, Store | None]:
    """Joins the process group of the member's workers; returns it and the shared store, None for one worker."""
    rank, record, attempt = context.rank, context.record, context.attempt
    nodes = tuple(each.node for each in record.job.ranks)
    if len(nodes) == 1:
        return WorkerGroup(0, nodes, None, device), None
    address = address_for_other_nodes(record.group.network_interface) if len(set(nodes)) > 1 else address_within_node()
    for library in ("GLOO", "NCCL"):  # otherwise each picks an interface itself, by host name
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", address.interface)
    store = _open_store(rank, len(nodes), address, attempt)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank.rank, world_size=len(nodes), timeout=TIMEOUT)
    return WorkerGroup(rank.rank, nodes, dist.group.WORLD, device), store


def replica_group(workers: WorkerGroup, layout: ParallelLayout) -> WorkerGroup:
    """The workers that hold the same stage of the model as this one; collective over all workers."""
    if layout.stages == 1:
        return workers
    found = workers
    for stage in range(layout.stages):
        ranks = [rank for rank in range(workers.size) if layout.stage_of(rank) == stage]
        group = dist.new_group(ranks) if len(ranks) > 1 else None
        if workers.rank in ranks:
            nodes = tuple(workers.nodes[rank] for rank in ranks)
            found = WorkerGroup(layout.replica_of(workers.rank), nodes, group, workers.device)
    return found


def _open_store(rank: Rank, workers: int, own: Address, attempt: AttemptFolder) -> Store:
    """Rank 0 listens on a free port of its own address only, and writes it to the rendezvous file."""
    if rank.rank == 0:
        listener = socket.create_server((own.address, 0), backlog=max(128, workers))
        port = listener.getsockname()[1]
        store = TCPStore(
            own.address,
            port,
            workers,
            is_master=True,
            timeout=TIMEOUT,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        write_json(attempt.rendezvous, {"address": own.address, "port": port})
        return store
    where = _wait_for_rendezvous(attempt)
    return TCPStore(where["address"], where["port"], workers, is_master=False, timeout=TIMEOUT)


def _wait_for_rendezvous(attempt: AttemptFolder) -> dict[str, Any]:
    """Returns address and port of rank 0."""
    try:
        found: dict[str, Any] = read_when_visible(
            lambda: read_json(attempt.rendezvous), attempt.path, TIMEOUT.total_seconds(), POLL_S
        )
    except (OSError, ValueError):
        raise TimeoutError(f"rank 0 did not write its address within {TIMEOUT}") from None
    return found


def why_bytes_uncounted() -> str | None:
    """Why TCP sockets do not show the bytes sent to other ranks; None if they do."""
    if not dist.is_initialized():
        return "a single worker sends nothing"
    if dist.get_backend() != "gloo":
        # NCCL uses NVLink, shared memory or its own network stack.
        return f"{dist.get_backend()} bypasses the TCP sockets that are counted"
    return None


def leave_group() -> None:
    """Destroys the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def barrier() -> None:
    """Returns when every worker of the member has called it."""
    if dist.is_initialized():
        dist.barrier()


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """All-gathers rows in rank order; worker i contributes counts[i] of them."""
    if not dist.is_initialized():
        return rows
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
