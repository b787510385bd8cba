"""Memory of training: state of the model, activations by precision and technique, and which samples do not fit."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainmark.spec.config import TrainChoices
from trainmark.spec.status import Spread
from trainmark.spec.units import counted, show_bytes
from trainmark.workloads.cost import Cost, cost_of

OPTIMIZER_STATES = {"adam": 2, "adamw": 2, "lamb": 2}
HALF_BYTES = ("bf16-mixed", "fp16-mixed", "fp16")  # activations of half the size of fp32
SIDE = 224  # of images whose cost is tabulated; it follows the area
MAX_NAMED = 5


def state_bytes(parameters: int, optimizer: str) -> int:
    """Bytes of weights, gradients and optimizer state, in fp32."""
    return 4 * parameters * (2 + OPTIMIZER_STATES.get(optimizer, 1))


# Blocks that are mapped one by one cost what they are; heaps that keep freed memory fragment, the more so the more the
# sizes of tensors differ. docs/benchmarks.md has the measurements; tcmalloc and jemalloc are not among them.
# What is held for a byte that is alive.
HELD: dict[str | None, Spread] = {
    None: Spread(1.0, 1.05, 1.3),  # an accelerator's memory: beside tensors, workspaces of its libraries
    "glibc-mmap": Spread(0.95, 1.03, 1.15),
    "glibc-tuned": Spread(1.0, 1.75, 3.1),
    "system": Spread(1.0, 1.4, 2.3),
    "tcmalloc": Spread(1.0, 1.2, 1.8),
    "jemalloc": Spread(1.0, 1.2, 1.8),
}


# The same where activations are recomputed or offloaded: fewer bytes are alive, but as many come and go.
HELD_OF_FEWER: dict[str | None, Spread] = {"glibc-tuned": Spread(1.0, 2.9, 3.4), "system": Spread(1.0, 2.0, 2.5)}


def held_by(allocator: str | None, train: TrainChoices) -> Spread:
    """What is held for a byte that is alive, by an allocator of host memory or, None, on an accelerator."""
    is_fewer = train.torch.recompute or train.torch.offload != "none"
    return HELD_OF_FEWER.get(allocator, HELD[allocator]) if is_fewer else HELD[allocator]


def model_bytes(parameters: int, train: TrainChoices) -> int:
    """Bytes of the model's state and, in mixed precision, of its weights in half."""
    halves = 2 * parameters if train.precision in ("bf16-mixed", "fp16-mixed") else 0
    return state_bytes(parameters, train.optimizer) + halves


def live_bytes(cost: Cost, train: TrainChoices) -> int:
    """Bytes of a sample at the peak of a pass, by precision and by what happens to its activations."""
    kept, recomputed, offloaded = cost.live[3:] if train.precision in HALF_BYTES else cost.live[:3]
    if train.torch.offload != "none":
        return offloaded
    return recomputed if train.torch.recompute else kept


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
    model: str,
    settings: Mapping[str, Any],
    shapes: ArrayLike,
    train: TrainChoices,
    allocator: str | None,
    parts: float = 1.0,
) -> NDArray[np.float64] | None:
    """Bytes that each sample is expected to take, alone in a batch, with the model's state; None if not tabulated.

    `parts` are those of the model that share them.

    The process itself, some hundred megabytes, is not included.
    """
    cost = cost_of(model, settings, (3, SIDE, SIDE))
    if cost is None:
        return None
    areas = np.asarray(shapes, np.float64).reshape(-1, 2).prod(axis=1)
    live = live_bytes(cost, train) * areas / SIDE**2
    return np.asarray((model_bytes(cost.parameters, train) + held_by(allocator, train).expected * live) / parts)


def samples_over(limit_bytes: float, needed: NDArray[np.float64]) -> TooLarge:
    """Returns the samples that need more than the limit, by the bytes of each."""
    over = np.flatnonzero(needed > limit_bytes)
    order = over[np.argsort(-needed[over], kind="stable")]
    return TooLarge(limit_bytes, len(needed), tuple(order.tolist()), tuple(needed[order].tolist()))
