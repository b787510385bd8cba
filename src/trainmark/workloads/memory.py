"""Memory of training: state of the model, activations by precision and technique, and which samples do not fit."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.spec.config import TrainChoices
from trainmark.spec.units import counted, show_bytes
from trainmark.workloads.cost import cost_of

OPTIMIZER_STATES = {"adam": 2, "adamw": 2, "lamb": 2}
HALF_BYTES = ("bf16-mixed", "fp16-mixed", "fp16")  # activations of half the size of fp32
# Peak over what is kept for the backward pass: gradients and workspaces come beside it. ResNet-18 in fp32 on an AMD
# EPYC, passes of 3 to 7.5 MP in 1 to 4 images, contiguous and channels-last: 1.14 to 1.24 (n = 5, torch 2.13).
PEAK_OVER_KEPT = (1.05, 1.3)
EXPECTED_PEAK_OVER_KEPT = 1.17
SIDE = 224  # of images whose cost is tabulated; it follows the area
MAX_NAMED = 5


def state_bytes(parameters: int, optimizer: str) -> int:
    """Bytes of weights, gradients and optimizer state, in fp32."""
    return 4 * parameters * (2 + OPTIMIZER_STATES.get(optimizer, 1))


def kept_share(train: TrainChoices) -> float:
    """The share of fp32 activations that stays in memory, by precision and technique."""
    share = 0.5 if train.precision in HALF_BYTES else 1.0
    return share / 3 if train.torch.recompute or train.torch.offload != "none" else share


class TooLarge(NamedTuple):
    """Samples that do not fit into a memory even alone in a batch, the largest first, and the bytes of each."""

    limit_bytes: float
    num_samples: int
    indices: tuple[int, ...]
    bytes: tuple[float, ...]

    @property
    def share(self) -> float:
        """The share of all samples."""
        return len(self.indices) / self.num_samples if self.num_samples else 0.0

    def text(self, names: Sequence[str] = ()) -> str:
        """`3 of 100 samples (3 %) need more than 16 GiB each: 17 (40 GiB), …`; `names` are those of all samples."""
        what = f"{len(self.indices):,} of {counted(self.num_samples, 'sample')} ({100 * self.share:.3g} %)"
        what += f" need more than {show_bytes(self.limit_bytes)} each"
        first = zip(self.indices[:MAX_NAMED], self.bytes, strict=False)
        named = [f"{names[index] if names else index} ({show_bytes(needed)})" for index, needed in first]
        more = [f"and {len(self.indices) - MAX_NAMED:,} more"] if len(self.indices) > MAX_NAMED else []
        return f"{what}: {', '.join([*named, *more])}" if named else what


def bytes_of_samples(
    model: str, settings: Mapping[str, Any], shapes: ArrayLike, train: TrainChoices
) -> NDArray[np.float64] | None:
    """Bytes that each sample takes, alone in a batch: state of the model and activations; None if not tabulated.

    The process itself, some hundred megabytes, is not included.
    """
    cost = cost_of(model, settings, (3, SIDE, SIDE))
    if cost is None:
        return None
    areas = np.asarray(shapes, np.float64).reshape(-1, 2).prod(axis=1)
    kept = cost.activation_bytes * areas / SIDE**2 * kept_share(train)
    return np.asarray(state_bytes(cost.parameters, train.optimizer) + EXPECTED_PEAK_OVER_KEPT * kept)


def samples_over(limit_bytes: float, needed: NDArray[np.float64]) -> TooLarge:
    """Returns the samples that need more than the limit, by the bytes of each."""
    over = np.flatnonzero(needed > limit_bytes)
    order = over[np.argsort(-needed[over], kind="stable")]
    return TooLarge(limit_bytes, len(needed), tuple(order.tolist()), tuple(needed[order].tolist()))
