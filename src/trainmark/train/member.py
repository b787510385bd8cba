"""One rank's part in training one member, from set-up to completion record, stage by stage."""

import os
import resource
import socket
from typing import Any

import torch

from trainmark.data.batches import ResidentBatches
from trainmark.data.bootstrap import read_counts
from trainmark.machine.affinity import check_affinity
from trainmark.machine.ceilings import measure_ceiling
from trainmark.machine.software import recorded_environment
from trainmark.spec.files import write_json
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.registries import DATASETS, MODELS, OPTIMIZERS, QUALITIES, SCHEDULES, TASKS
from trainmark.spec.seeds import weights_seed
from trainmark.train.checkpoint import find_checkpoint, load_checkpoint
from trainmark.train.evaluation import write_predictions
from trainmark.train.event_log import EventLog
from trainmark.train.loop import train
from trainmark.train.process_group import barrier, join_group, leave_group, share_model
from trainmark.train.start_line import wait_for_go
from trainmark.train.trainee import Trainee
from trainmark.workloads.find import find_size
from trainmark.workloads.flops.count import count_model


def train_member(record: JobRecord, rank: Rank, attempt_number: int, log: EventLog, *, supervised: bool) -> None:
    """The member is trained; rank 0 leaves predictions and the completion record."""
    attempt = record.folder.attempt(record.job.member, attempt_number)
    device = _set_up_process(record, rank, log)
    join_group(rank, len(record.job.ranks), attempt, device)
    trainee = _build_trainee(record, rank, device, log)
    first_epoch, first_step = _resume(trainee, record, attempt_number, log)
    if supervised:
        wait_for_go(attempt, rank.rank)
    if record.config.measure.ceiling and record.job.is_first_of_lane:
        log.write("ceiling", **measure_ceiling(device, record.config.measure.ceiling_seconds))
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
    barrier()
    log.write("run_start", epoch=first_epoch)
    quality = train(trainee, attempt, log, first_epoch, first_step)
    log.write("run_stop", quality=quality)
    write_predictions(trainee, attempt.predictions)
    log.write("memory", **_peak_memory(device))
    barrier()
    if rank.rank == 0:
        write_json(attempt.done, {"member": record.job.member, "attempt": attempt_number, "quality": quality})
    leave_group()


def _set_up_process(record: JobRecord, rank: Rank, log: EventLog) -> torch.device:
    """The device of this rank; threads, precision and seed are set, and what is so is recorded."""
    threads = record.config.launch.threads or len(rank.cores)
    torch.set_num_threads(threads)
    torch.manual_seed(weights_seed(record.config.seed, record.job.member))
    device = torch.device("cpu" if rank.accelerator is None else "cuda")
    if device.type == "cuda":
        # fp32 means fp32: tf32 is a precision of its own.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    torch.ones(2**20).add_(1)  # large enough for all threads, so that they exist when their cores are checked
    log.write(
        "rank_started",
        host=socket.gethostname(),
        pid=os.getpid(),
        rank=rank.rank,
        device=torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        affinity=check_affinity(rank.cores, threads, torch.get_num_threads()),
        environment=recorded_environment(),
        torch=torch.__version__,
        torch_isa=torch.backends.cpu.get_cpu_capability(),
    )
    return device


def _build_trainee(record: JobRecord, rank: Rank, device: torch.device, log: EventLog) -> Trainee:
    config, member = record.config, record.job.member
    size = find_size(config.workload, config.size)
    dataset_class = DATASETS.load(size.dataset)
    dataset = dataset_class(dataset_class.Settings.model_validate(config.data))
    train_split, eval_split = dataset.load("train"), dataset.load("eval")
    counts = read_counts(record.folder, member)
    log.write(
        "data_ready",
        dataset=size.dataset,
        draws=int(counts.sum()),
        fingerprint=f"{train_split.fingerprint()}-{eval_split.fingerprint()}",
    )
    channels_last = config.train.memory_format == "channels-last"
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = MODELS.load(size.model)(**size.model_settings).to(device, memory_format=layout)
    if rank.rank == 0:
        shape = tuple(train_split.samples.shape[1:])
        log.write("model_ready", **count_model(size.model, size.model_settings, shape))
    return Trainee(
        config=config,
        member=member,
        rank=rank.rank,
        workers=len(record.job.ranks),
        device=device,
        counts=counts,
        model=model,
        shared_model=share_model(model),
        optimizer=OPTIMIZERS.load(config.train.optimizer)(model.parameters(), config.train),
        schedule=SCHEDULES.load(config.train.schedule),
        task=TASKS.load(size.task),
        quality=QUALITIES.load(size.quality),
        train_batches=ResidentBatches(train_split, device, channels_last=channels_last),
        eval_batches=ResidentBatches(eval_split, device, channels_last=channels_last),
    )


def _resume(trainee: Trainee, record: JobRecord, attempt_number: int, log: EventLog) -> tuple[int, int]:
    path = find_checkpoint(record.folder, record.job.member, attempt_number)
    if path is None:
        return 0, 0
    epoch, step = load_checkpoint(path, trainee.model, trainee.optimizer, trainee.device)
    log.write("resumed", checkpoint=str(path.relative_to(record.folder.path)), epoch=epoch, step=step)
    return epoch, step


def _peak_memory(device: torch.device) -> dict[str, Any]:
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    on_device = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    return {"resident_bytes": resident, "device_bytes": on_device}
