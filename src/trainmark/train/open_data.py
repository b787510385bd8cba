"""The data of one rank: synthetic, resident in memory, or streamed from disk."""

import numpy as np

from trainmark.data.bootstrap import read_counts
from trainmark.data.epochs import largest_pass_px, steps_of_member
from trainmark.data.folders import with_folder
from trainmark.data.readers import Readers
from trainmark.data.source import DatasetSource, Resident, Streamed, Synthetic
from trainmark.data.split import Split, StoredSplit
from trainmark.data.staging.duplicator import StagedSplit
from trainmark.data.staging.pack import Selection
from trainmark.spec.config import RunConfig
from trainmark.spec.events import DataReady
from trainmark.spec.registries import DATASETS
from trainmark.spec.seeds import RandomStream, generator_for
from trainmark.train.engine import Data, RankContext
from trainmark.train.staging import stage_on_node

RESIDENT_BYTES = 2**30  # the largest split that a rank keeps in memory instead of reading it in every epoch


def open_data(context: RankContext) -> Data:
    """Opens the training and evaluation samples, and logs where they come from."""
    config, record, log = context.config, context.record, context.log
    counts = read_counts(record.folder, context.member)
    kind = DATASETS.load(config.dataset)
    dataset = kind(kind.Settings.model_validate(with_folder(config, record.places.data)))
    draws = int(counts.sum())
    if getattr(dataset, "is_synthetic", False):
        log.write(
            DataReady(
                dataset=config.dataset,
                draws=draws,
                fingerprint="synthetic",
                synthetic=True,
                kept="generated on the device",
            )
        )
        seed = int(generator_for(config.seed, context.member, RandomStream.SYNTHETIC).integers(2**62))
        synthetic = Synthetic(dataset.sample_shape, dataset.settings.num_classes, seed)
        return Data(counts, dataset.sample_shape, synthetic, None)
    splits = [dataset.load(name) for name in ("train", "eval")]
    fingerprints = [split.fingerprint() for split in splits]
    if config.launch.stage == "local" and not isinstance(splits[0], Split):
        wanted = Selection(config.dataset, fingerprints[0], counts > 0)
        splits[0] = stage_on_node(splits[0], wanted, record, context.rank, context.attempt, log)
    train, *held_out = sources_of(splits if config.evaluate.samples != 0 else splits[:1], config)
    shapes = splits[0].shapes
    log.write(
        DataReady(
            dataset=config.dataset,
            draws=draws,
            fingerprint="-".join(fingerprints),
            kept=_where(train),
            steps_per_epoch=steps_of_member(config, counts, shapes, context.member),
        )
    )
    largest_px = largest_pass_px(config, counts, shapes, context.member)
    return Data(counts, splits[0].sample_shape, train, held_out[0] if held_out else None, shapes, largest_px)


def _where(source: DatasetSource) -> str:
    """Where training samples are read from."""
    if isinstance(source, Resident):
        return "in memory"
    place = "read from the node's own storage" if isinstance(source.split, StagedSplit) else "read from disk"
    decoder = getattr(source.split, "decoder", None)
    return f"{place}, decoded by {decoder}" if decoder else place


def sources_of(splits: list[Split | StoredSplit], config: RunConfig) -> list[DatasetSource]:
    """The source of each split: memory if it fits, otherwise reader processes, which the splits share."""
    opened = [read_whole(split) if isinstance(split, Split) or _fits(split, config) else split for split in splits]
    stored = [split for split in opened if not isinstance(split, Split)]
    count = config.launch.loader_workers
    readers = Readers(stored, config.train.augmentation, count if stored else 0)
    return [Resident(split) if isinstance(split, Split) else Streamed(split, readers) for split in opened]


def _fits(split: StoredSplit, config: RunConfig) -> bool:
    """Whether the split is small, not augmented, and its samples are alike."""
    if split.shapes is not None or config.train.augmentation != "none":
        return False
    return len(split) * split.read(0, "none", 0).nbytes <= RESIDENT_BYTES


def read_whole(split: Split | StoredSplit) -> Split:
    """Reads the whole split into memory."""
    if isinstance(split, Split):
        return split
    samples = np.stack([split.read(index, "none", 0) for index in range(len(split))])
    return Split(samples, split.labels, split.offset, split.scale)
