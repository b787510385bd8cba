"""The rank's process made ready to measure: threads, seed and device, and the record of what they are."""

import os
import resource
import socket

import torch

from trainmark.machine.allocators import loaded_allocator
from trainmark.machine.software import recorded_environment
from trainmark.machine.topology import check_affinity
from trainmark.spec.events import RankStarted
from trainmark.spec.job_record import JobRecord
from trainmark.spec.machine_events import Memory
from trainmark.spec.plan import Rank
from trainmark.spec.seeds import weights_seed
from trainmark.train.event_log import EventLog


def set_up_process(record: JobRecord, rank: Rank, log: EventLog) -> torch.device:
    """The device of this rank; threads and seed are set, and what is so is recorded."""
    threads = record.config.launch.threads or len(rank.cores)
    torch.set_num_threads(threads)
    torch.manual_seed(weights_seed(record.config.seed, record.job.member))
    device = torch.device("cpu" if rank.accelerator is None else "cuda")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    torch.ones(2**20).add_(1)  # large enough for all threads, so that they exist when their cores are checked
    log.write(
        RankStarted(
            host=socket.gethostname(),
            pid=os.getpid(),
            rank=rank.rank,
            device=torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
            device_uuid=f"GPU-{torch.cuda.get_device_properties().uuid}" if device.type == "cuda" else None,
            affinity=check_affinity(rank.cores, threads, torch.get_num_threads()),
            environment=recorded_environment(),
            allocator=loaded_allocator(),
            torch=str(torch.__version__),
            torch_isa=torch.backends.cpu.get_cpu_capability(),
        )
    )
    return device


def peak_memory(device: torch.device) -> Memory:
    """The most memory that this rank has held, on the host and on the device."""
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    on_device = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    return Memory(resident_bytes=resident, device_bytes=on_device)
