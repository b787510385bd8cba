"""The work of steps and epochs, of all workers of a member: samples, FLOPs, pixels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainmark.collect.statistics import Samples
from trainmark.spec.events import EpochStart, EpochStop, Steps


class Epoch(NamedTuple):
    """One epoch of a member, or the part that was trained: start, duration, and samples over all workers."""

    epoch: int
    start_s: float
    epoch_s: float
    samples: int
    harness_s: float
    share: float = 1.0  # of the epoch's steps; less if training ended or was resumed within it
    flop: dict[str, float] | None = None  # by convention, if its steps recorded them

    @property
    def is_whole(self) -> bool:
        """Whether all of its steps were trained."""
        return self.share == 1.0


def epoch_of(start: EpochStart, stop: EpochStop, blocks: Sequence[Steps]) -> Epoch:
    """Returns the epoch between two events, `blocks` being the steps of the whole attempt."""
    share = 1.0
    if stop.steps_per_epoch and start.step is not None:
        share = (stop.next_step - start.step) / stop.steps_per_epoch
    inside = [block for block in blocks if block.epoch == stop.epoch]
    samples, flop = recorded(inside, [block.samples for block in inside]), recorded_flop(inside)
    return Epoch(
        epoch=stop.epoch,
        start_s=start.wall_s,
        epoch_s=stop.epoch_s,
        samples=stop.samples if samples is None else int(samples.sum()),
        harness_s=stop.harness_s,
        share=share,
        flop={name: float(of_steps.sum()) for name, of_steps in flop.items()} or None,
    )


def recorded(blocks: Sequence[Steps], values: Sequence[Sequence[float]]) -> Samples | None:
    """Returns the values of all steps, those of a block together; None if they were not recorded, all being alike."""
    if not any(values):
        return None
    for block, of_block in zip(blocks, values, strict=True):
        if len(of_block) != len(block.step_s):
            raise ValueError(f"{len(of_block)} values for the {len(block.step_s)} steps from {block.first_step} on")
    return np.array([value for of_block in values for value in of_block], dtype=np.float64)


def recorded_flop(blocks: Sequence[Steps]) -> dict[str, Samples]:
    """Returns the FLOPs of each step by convention; empty if they were not recorded."""
    names = dict.fromkeys(name for block in blocks for name in block.flop)
    found = {name: recorded(blocks, [block.flop.get(name, []) for block in blocks]) for name in names}
    return {name: values for name, values in found.items() if values is not None}


def weights(total_px: Samples | None, num_steps: int) -> Samples:
    """Returns the size of each step relative to their mean: 1 if all are alike, else by its pixels."""
    return np.ones(num_steps) if total_px is None else total_px / total_px.mean()
