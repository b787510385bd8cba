"""Predictions for held-out and out-of-bag samples: scored between epochs, written after the last one."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import Indices
from trainmark.data.source import DatasetSource, Synthetic
from trainmark.spec.events import Evaluation
from trainmark.spec.files import write_atomically
from trainmark.spec.registries import QUALITIES
from trainmark.train.engine import Data, Engine, RankContext


def evaluate(context: RankContext, engine: Engine, held_out: DatasetSource, epoch: int) -> float | None:
    """Returns the quality on the held-out samples on rank 0, None elsewhere; collective over the ranks."""
    start = time.perf_counter()
    predictions = engine.predict(held_out, _all_of(held_out))
    if context.rank.rank != 0:
        return None
    quality: float = QUALITIES.load(context.config.quality).score(predictions, held_out.split.labels)
    context.log.write(Evaluation(epoch=epoch, quality=quality, evaluation_s=time.perf_counter() - start))
    return quality


def write_predictions(context: RankContext, engine: Engine, data: Data, path: Path) -> None:
    """Writes the trained member's predictions and the labels, for the ensemble's quality."""
    if data.evaluation is None:
        return
    arrays = _with_labels(engine, data.evaluation, _all_of(data.evaluation), "eval")
    if context.config.evaluate.out_of_bag and not isinstance(data.train, Synthetic):
        unseen = np.flatnonzero(data.counts == 0).astype(np.int64)
        arrays |= _with_labels(engine, data.train, unseen, "oob")
    if context.rank.rank == 0:
        write_atomically(
            path,
            lambda file: np.savez(file, **arrays),  # type: ignore[arg-type]
        )


def _all_of(source: DatasetSource) -> Indices:
    return np.arange(len(source.split.labels), dtype=np.int64)


def _with_labels(engine: Engine, source: DatasetSource, indices: Indices, name: str) -> dict[str, NDArray[Any]]:
    return {
        f"{name}_indices": indices,
        f"{name}_predictions": engine.predict(source, indices),
        f"{name}_labels": source.split.labels[indices],
    }
