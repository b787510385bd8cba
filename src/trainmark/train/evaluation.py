"""Predictions for held-out and out-of-bag samples: scored between epochs, written after the last one."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import Indices
from trainmark.data.held_out import evaluated_samples
from trainmark.data.source import DatasetSource, Synthetic
from trainmark.spec.events import Evaluation
from trainmark.spec.files import write_atomically
from trainmark.spec.registries import QUALITIES
from trainmark.train.engine import Data, Engine, RankContext


def evaluate(context: RankContext, engine: Engine, held_out: DatasetSource, epoch: int) -> float | None:
    """Returns the quality on the held-out samples on rank 0, None elsewhere; collective over the ranks."""
    start = time.perf_counter()
    indices = _evaluated(context, held_out)
    predictions = engine.predict(held_out, indices)
    if context.rank.rank != 0:
        return None
    quality: float = QUALITIES.load(context.config.quality).score(predictions, held_out.split.labels[indices])
    evaluation_s = time.perf_counter() - start
    context.log.write(Evaluation(epoch=epoch, quality=quality, evaluation_s=evaluation_s, samples=len(indices)))
    return quality


def write_predictions(context: RankContext, engine: Engine, data: Data, path: Path) -> None:
    """Writes the trained member's predictions and the labels, for the ensemble's quality."""
    if data.evaluation is None:
        return
    arrays = _with_labels(engine, data.evaluation, _evaluated(context, data.evaluation), "eval")
    if context.config.evaluate.out_of_bag and not isinstance(data.train, Synthetic):
        unseen = np.flatnonzero(data.counts == 0).astype(np.int64)
        arrays |= _with_labels(engine, data.train, unseen, "oob")
    if context.rank.rank == 0:
        write_atomically(
            path,
            lambda file: np.savez(file, **arrays),  # type: ignore[arg-type]
        )


def _evaluated(context: RankContext, held_out: DatasetSource) -> Indices:
    return evaluated_samples(held_out.split.labels, context.config.evaluate.samples)


def _with_labels(engine: Engine, source: DatasetSource, indices: Indices, name: str) -> dict[str, NDArray[Any]]:
    return {
        f"{name}_indices": indices,
        f"{name}_predictions": engine.predict(source, indices),
        f"{name}_labels": source.split.labels[indices],
    }
