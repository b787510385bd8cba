"""What each step computes where images differ in shape: samples, pixels and FLOPs of all workers."""

from collections.abc import Callable
from typing import TypedDict

import numpy as np

from trainmark.data.epochs import StepLoads
from trainmark.train.engine import RankContext


class StepMeasures(TypedDict, total=False):
    """Fields of the event Steps, a value per step; empty where all steps are alike."""

    samples: list[int]
    informative_px: list[int]
    total_px: list[int]
    flop: dict[str, list[float]]


MeasureLoads = Callable[[StepLoads | None], StepMeasures]


def step_measures(context: RankContext) -> MeasureLoads:
    """Returns what turns the loads of an epoch into fields of its events; rank 0 counts FLOPs at the padded shapes."""
    cost = None

    def measure(loads: StepLoads | None) -> StepMeasures:
        nonlocal cost
        if loads is None:
            return {}
        measured: StepMeasures = {
            "samples": loads.samples.tolist(),
            "informative_px": loads.informative_px.tolist(),
            "total_px": loads.total_px.tolist(),
        }
        if context.rank.rank == 0:
            if cost is None:
                # Imports torch: FLOPs are counted the same for all engines.
                from trainmark.workloads.flops.shapes import cost_by_shape

                cost = cost_by_shape(context.config.model, context.config.model_settings)
            step, samples, heights, widths = loads.passes.T
            measured["flop"] = {
                convention: np.bincount(
                    step, samples * cost.training_flop(convention, heights, widths), len(loads.samples)
                ).tolist()
                for convention in cost.conventions
            }
        return measured

    return measure
