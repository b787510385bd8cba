"""A second engine without torch: two layers in numpy with explicit gradients, to validate the engine interface.

Selected by `--set train.engine=tests.numpy_engine:OFFER --set model=tests.numpy_engine:MLP`, like a plug-in.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from trainmark.data.epochs import Indices, Rows, RowViews
from trainmark.data.source import DatasetSource, Synthetic, batches_of, samples_of
from trainmark.spec.config import RunConfig
from trainmark.spec.engine_offer import EngineOffer
from trainmark.spec.events import EngineReady, EpochFacts
from trainmark.spec.model_card import ModelCard
from trainmark.spec.seeds import weights_seed
from trainmark.spec.site import Site
from trainmark.train.engine import (
    Data,
    DeviceFacts,
    ForwardPass,
    HostClock,
    IncompatibleStateError,
    RankContext,
    UnreadableStateError,
)
from trainmark.train.shared_store import Store
from trainmark.workloads.find import find_card

Weights = dict[str, NDArray[np.float32]]
Batch = tuple[NDArray[np.float32], NDArray[np.int64]]


def refusals(config: RunConfig, workers: int, site: Site) -> Iterable[str]:
    """Yields what this engine does not support."""
    if workers > 1:
        yield f"The numpy engine trains with one worker, but there are {workers}. Choose --workers 1."
    if config.train.nesterov:
        yield "The numpy engine has no Nesterov momentum. Choose --set train.nesterov=false."


OFFER = EngineOffer(
    implementation="tests.numpy_engine:NumpyEngine",
    packages=("numpy",),
    tasks=("classification",),
    devices=("cpu",),
    optimizers=("sgd",),
    refusals=refusals,
)

MLP = ModelCard(
    name="mlp",
    description="Two fully connected layers with a ReLU between them.",
    input_shape=(3, 32, 32),
    settings={"num_classes": 10, "hidden": 32},
    num_layers=2,
    has_batch_norm=False,
    builders={"torch": "tests.numpy_engine:build_in_torch", "tests.numpy_engine:OFFER": "tests.numpy_engine:build"},
)


def build_in_torch(num_classes: int = 10, hidden: int = 32) -> Any:
    """The same model in torch, for counting FLOPs and comparing losses."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))


def build(num_classes: int = 10, hidden: int = 32) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the weights by their names in torch."""
    inputs = 3 * 32 * 32
    return {
        "1.weight": (hidden, inputs),
        "1.bias": (hidden,),
        "3.weight": (num_classes, hidden),
        "3.bias": (num_classes,),
    }


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """The probability of each class."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


class NumpyEngine:
    """One rank, computing in numpy."""

    def __init__(self, context: RankContext) -> None:
        self._context = context
        self.clock = HostClock()
        self._weights: Weights = {}
        self._momenta: Weights = {}

    def set_up(self) -> DeviceFacts:
        return DeviceFacts("cpu", None, self._context.threads, {"numpy": np.__version__})

    def join(self) -> Store | None:
        assert self._context.workers == 1
        return None

    def build(self, data: Data) -> EngineReady:
        config = self._context.config
        random = np.random.default_rng(weights_seed(config.seed, self._context.member))
        shapes = find_card(config.model).build(config.train.engine, config.model_settings)
        for name, shape in shapes.items():
            bound = shapes[f"{name[0]}.weight"][1] ** -0.5
            self._weights[name] = random.uniform(-bound, bound, shape).astype(np.float32)
            self._momenta[name] = np.zeros(shape, np.float32)
        self._train = data.train
        return EngineReady(
            synthetic=isinstance(data.train, Synthetic),
            precision=config.train.precision,
            arithmetic="fp32 in numpy",
            optimizer=config.train.optimizer,
            threads=self._context.threads,
            parallel=config.train.parallel,
            replicas=1,
            stages=1,
            global_batch=config.train.batch_size * config.train.accumulation,
            further={"gradient": "written out"},
        )

    def read(self, path: Path) -> Any:
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise UnreadableStateError(type(error).__name__) from error

    def load(self, state: Any) -> None:
        for name, weight in self._weights.items():
            if state[f"weight {name}"].shape != weight.shape:
                raise IncompatibleStateError(name)
            self._weights[name] = state[f"weight {name}"]
            self._momenta[name] = state[f"momentum {name}"]

    def measure_ceiling(self) -> dict[str, Any]:
        import torch

        from trainmark.machine.ceilings import measure_ceiling

        return measure_ceiling(torch.device("cpu"), self._context.config.measure.ceiling_seconds)

    def feed(self, rows: Rows, views: RowViews | None, passes: object = None) -> Iterator[Batch]:
        if not isinstance(self._train, Synthetic):
            return batches_of(self._train, rows, views)
        random = np.random.default_rng(self._train.seed)
        samples = random.standard_normal((len(rows[0]), *self._train.shape), np.float32)
        targets = random.integers(0, self._train.num_classes, len(rows[0]))
        return iter([(samples, targets)] * len(rows))

    def step(self, batch: Batch, rate: float, decay_factor: float) -> float:
        samples, targets = batch
        weights, train = self._weights, self._context.config.train
        inputs = samples.reshape(len(samples), -1)
        before = inputs @ weights["1.weight"].T + weights["1.bias"]
        hidden = np.maximum(before, 0)
        probabilities = softmax(hidden @ weights["3.weight"].T + weights["3.bias"])
        chosen = (np.arange(len(targets)), targets)
        loss = -np.log(probabilities[chosen]).mean()
        # Backwards: d loss / d logits = (p − 1 at the target) / N.
        of_logits = probabilities.copy()
        of_logits[chosen] -= 1
        of_logits /= len(targets)
        of_hidden = (of_logits @ weights["3.weight"]) * (before > 0)
        gradients = {
            "3.weight": of_logits.T @ hidden,
            "3.bias": of_logits.sum(axis=0),
            "1.weight": of_hidden.T @ inputs,
            "1.bias": of_hidden.sum(axis=0),
        }
        for name, gradient in gradients.items():  # u = m·u + g + decay·w; w -= rate·u, as torch's SGD
            decayed = gradient + np.float32(decay_factor * train.weight_decay) * weights[name]
            self._momenta[name] = np.float32(train.momentum) * self._momenta[name] + decayed
            weights[name] = weights[name] - np.float32(rate) * self._momenta[name]
        return float(loss)

    def sync_weights(self) -> None: ...

    def epoch_facts(self) -> EpochFacts:
        return {}

    def why_bytes_uncounted(self) -> str | None:
        return "a single worker sends nothing"

    def predict(self, source: DatasetSource, indices: Indices) -> NDArray[np.float32]:
        batch_size = self._context.config.evaluate.batch_size
        return np.concatenate([self._forward(samples) for samples in samples_of(source, indices, batch_size)])

    def prepare_inference(self) -> ForwardPass | str:
        return lambda batch: self._forward(batch[0])

    def _forward(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        weights = self._weights
        hidden = np.maximum(samples.reshape(len(samples), -1) @ weights["1.weight"].T + weights["1.bias"], 0)
        return softmax(hidden @ weights["3.weight"].T + weights["3.bias"])

    def save(self, file: IO[bytes]) -> None:
        arrays = {f"weight {name}": weight for name, weight in self._weights.items()}
        arrays |= {f"momentum {name}": momentum for name, momentum in self._momenta.items()}
        for chunk in _as_npz(arrays):
            file.write(chunk)

    def weights(self) -> dict[str, NDArray[Any]]:
        return {name: weight.copy() for name, weight in self._weights.items()}

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        self._weights = {name: np.asarray(weights[name], np.float32).copy() for name in self._weights}

    def peak_device_bytes(self) -> int | None:
        return None

    def take_peak_device_bytes(self) -> int:
        """No device, so no memory."""
        return 0

    def barrier(self) -> None: ...

    def leave(self) -> None: ...


def _as_npz(arrays: dict[str, NDArray[Any]]) -> Iterator[bytes]:
    """Yields an .npz file in one piece: numpy's writer seeks, which a checksummed stream does not support."""
    from io import BytesIO

    whole = BytesIO()
    np.savez(whole, **arrays)  # type: ignore[arg-type]
    yield whole.getvalue()
