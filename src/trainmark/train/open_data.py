"""The data of one rank: made up on the device, whole in its memory, or read from disk ahead of the training."""

from typing import NamedTuple

import numpy as np
import torch

from trainmark.data.batches import Batches, KnownBatches, ResidentBatches, SyntheticBatches
from trainmark.data.bootstrap import Counts, read_counts
from trainmark.data.folders import with_folder
from trainmark.data.readers import Readers
from trainmark.data.split import Split, StoredSplit
from trainmark.data.staging.duplicator import StagedSplit
from trainmark.data.staging.pack import Selection
from trainmark.data.streaming import StreamedBatches
from trainmark.spec.config import RunConfig
from trainmark.spec.job_record import JobRecord
from trainmark.spec.plan import Rank
from trainmark.spec.registries import DATASETS, TASKS
from trainmark.spec.run_folder import AttemptFolder
from trainmark.spec.seeds import Purpose, stream
from trainmark.train.event_log import EventLog
from trainmark.train.staging import stage_on_node
from trainmark.train.torch.speed import image_layout
from trainmark.workloads.find import find_size

RESIDENT_BYTES = 2**30  # what a rank keeps of each split in memory rather than reading it again in every epoch


class Data(NamedTuple):
    """What the batches of a rank are made from."""

    counts: Counts  # how often the member has each training sample
    sample_shape: tuple[int, ...]
    train: Batches
    kept: KnownBatches | None  # the training samples, to predict those that are out of bag
    evaluation: KnownBatches | None  # None where data are synthetic: there is nothing to evaluate


def open_data(record: JobRecord, rank: Rank, attempt: AttemptFolder, device: torch.device, log: EventLog) -> Data:
    """Batches for training and evaluation; what they are made from stands in the events."""
    config = record.config
    counts = read_counts(record.folder, record.job.member)
    kind = DATASETS.load(config.dataset)
    dataset = kind(kind.Settings.model_validate(with_folder(config, record.places.data)))
    facts = {"dataset": config.dataset, "draws": int(counts.sum())}
    if getattr(dataset, "is_synthetic", False):
        log.write("data_ready", **facts, fingerprint="synthetic", synthetic=True, kept="made up on the device")
        made_up = _made_up(config, record.job.member, dataset.sample_shape, dataset.settings.num_classes, device)
        return Data(counts, dataset.sample_shape, made_up, None, None)
    splits = [dataset.load(name) for name in ("train", "eval")]
    fingerprints = [split.fingerprint() for split in splits]
    if config.launch.stage == "local" and not isinstance(splits[0], Split):
        wanted = Selection(config.dataset, fingerprints[0], counts > 0)
        splits[0] = stage_on_node(splits[0], wanted, record, rank, attempt, log)
    batches = _batches(splits, config, device)
    kept = _kept(batches[0], splits[0])
    log.write("data_ready", **facts, fingerprint="-".join(fingerprints), synthetic=False, kept=kept)
    return Data(counts, splits[0].sample_shape, batches[0], batches[0], batches[1])


def _kept(batches: KnownBatches, split: Split | StoredSplit) -> str:
    """Where training finds its samples."""
    if isinstance(batches, ResidentBatches):
        return "in memory"
    return "read from the node's own storage" if isinstance(split, StagedSplit) else "read from disk"


def _made_up(
    config: RunConfig, member: int, shape: tuple[int, ...], num_classes: int, device: torch.device
) -> SyntheticBatches:
    seed = int(stream(config.seed, member, Purpose.SYNTHETIC).integers(2**62))
    task = TASKS.load(find_size(config.workload, config.size).task)
    random = torch.Generator(device).manual_seed(seed)
    return SyntheticBatches(
        shape,
        lambda count: task.made_up_targets(count, shape, num_classes, random),
        random,
        channels_last=_is_channels_last(config),
    )


def _batches(splits: list[Split | StoredSplit], config: RunConfig, device: torch.device) -> list[KnownBatches]:
    """The batches of each split: from memory where it fits there, else by readers, which the splits share."""
    at_hand = [read_whole(split) if isinstance(split, Split) or _fits(split, config) else split for split in splits]
    stored = [split for split in at_hand if not isinstance(split, Split)]
    count = config.launch.loader_workers
    readers = Readers(stored, config.train.augmentation, count if stored else 0, pinned=device.type == "cuda")
    layout = {"channels_last": _is_channels_last(config)}
    return [
        ResidentBatches(split, device, **layout)
        if isinstance(split, Split)
        else StreamedBatches(readers, split, device, **layout)
        for split in at_hand
    ]


def _fits(split: StoredSplit, config: RunConfig) -> bool:
    """Whether the split is small, and each of its samples the same in every epoch."""
    return config.train.augmentation == "none" and len(split) * split.read(0, "none", 0).nbytes <= RESIDENT_BYTES


def read_whole(split: Split | StoredSplit) -> Split:
    """The split in memory."""
    if isinstance(split, Split):
        return split
    samples = np.stack([split.read(index, "none", 0) for index in range(len(split))])
    return Split(samples, split.labels, split.offset, split.scale)


def _is_channels_last(config: RunConfig) -> bool:
    return image_layout(config.train) == torch.channels_last
