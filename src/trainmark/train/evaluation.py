"""Predictions of held-out and out-of-bag samples, shared among the member's workers."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trainmark.data.batches import KnownBatches
from trainmark.data.epochs import Order
from trainmark.spec.events import Evaluation
from trainmark.spec.files import write_atomically
from trainmark.train.event_log import EventLog
from trainmark.train.torch.process_group import gather_rows
from trainmark.train.torch.trainee import Trainee


def evaluate(trainee: Trainee, epoch: int, log: EventLog) -> float | None:
    """The quality on the held-out samples, on rank 0; the other ranks help and get nothing."""
    start = time.perf_counter()
    assert trainee.eval_batches is not None
    everything = np.arange(len(trainee.eval_batches.labels), dtype=np.int64)
    predictions = _predict(trainee, trainee.parallelism.whole_model(), trainee.eval_batches, everything)
    if trainee.rank != 0:
        return None
    labels = trainee.eval_batches.labels.cpu().numpy()
    quality: float = trainee.quality.score(predictions, labels)
    log.write(Evaluation(epoch=epoch, quality=quality, evaluation_s=time.perf_counter() - start))
    return quality


def write_predictions(trainee: Trainee, path: Path) -> None:
    """The trained member's predictions and the true labels, for the ensemble's."""
    if trainee.eval_batches is None:
        return
    model = trainee.parallelism.whole_model()
    everything = np.arange(len(trainee.eval_batches.labels), dtype=np.int64)
    arrays = _with_labels(trainee, model, trainee.eval_batches, everything, "eval")
    if trainee.config.evaluate.out_of_bag and trainee.kept_batches is not None:
        unseen = np.flatnonzero(trainee.counts == 0).astype(np.int64)
        arrays |= _with_labels(trainee, model, trainee.kept_batches, unseen, "oob")
    if trainee.rank == 0:
        write_atomically(
            path,
            lambda file: np.savez(file, **arrays),  # type: ignore[arg-type]
        )


def _with_labels(
    trainee: Trainee, model: nn.Module, batches: KnownBatches, indices: Order, name: str
) -> dict[str, NDArray[Any]]:
    return {
        f"{name}_indices": indices,
        f"{name}_predictions": _predict(trainee, model, batches, indices),
        f"{name}_labels": batches.labels.cpu().numpy()[indices],
    }


def _predict(trainee: Trainee, model: nn.Module, batches: KnownBatches, indices: Order) -> NDArray[np.float32]:
    """The predictions for `indices`, in their order: each worker makes a run of them, all get them all."""
    shares = np.array_split(indices, trainee.workers)
    mine = shares[trainee.rank]
    some = mine if len(mine) else np.zeros(1, np.int64)  # without any, one sample gives the width of a prediction
    model.eval()
    with torch.inference_mode(), trainee.arithmetic.forward():
        parts = [
            trainee.task.predictions(model, samples)
            for samples in batches.in_order(some, trainee.config.evaluate.batch_size)
        ]
    model.train()
    return gather_rows(torch.cat(parts)[: len(mine)], [len(share) for share in shares]).cpu().numpy().astype(np.float32)
