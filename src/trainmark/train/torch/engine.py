"""TorchEngine: the Engine protocol of train/engine.py in PyTorch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainmark.data.epochs import Indices, Passes, Rows, RowViews
from trainmark.data.source import DatasetSource, Resident, Source, Synthetic, alike
from trainmark.machine.ceilings import measure_ceiling
from trainmark.spec.events import EngineReady, EpochFacts
from trainmark.spec.seeds import weights_seed
from trainmark.train.engine import (
    Clock,
    Data,
    DeviceFacts,
    ForwardPass,
    IncompatibleStateError,
    RankContext,
    UnreadableStateError,
)
from trainmark.train.out_of_memory import explain_out_of_memory
from trainmark.train.shared_store import Store
from trainmark.train.torch.batches import (
    Batch,
    Batches,
    DatasetBatches,
    ResidentBatches,
    StreamedBatches,
    SyntheticBatches,
)
from trainmark.train.torch.build import TrainingState, build_state, chosen_options
from trainmark.train.torch.clocks import CpuClock, GpuClock
from trainmark.train.torch.compilation import image_memory_format
from trainmark.train.torch.installation import describe_torch
from trainmark.train.torch.process_group import barrier, gather_rows, join_group, leave_group, why_bytes_uncounted
from trainmark.train.torch.protocols import StepPasses, WorkerGroup
from trainmark.train.torch.step import Step, set_rate, set_weight_decay, step_of
from trainmark.workloads.eager import skip_compiler

UNREADABLE = (RuntimeError, ValueError, LookupError, EOFError, UnpicklingError)


class TorchEngine:
    """One rank's model in PyTorch, on the CPU or on its GPU."""

    clock: Clock
    _workers: WorkerGroup
    _state: TrainingState

    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._device = torch.device("cpu" if context.rank.accelerator is None else "cuda")
        self.clock = GpuClock() if self._on_gpu else CpuClock()
        self._batches: dict[Source, Batches] = {}
        self._train: Batches | None = None
        self._largest_pass_px: int | None = None
        self._step: Step | None = None
        self._whole: nn.Module | None = None

    @property
    def _on_gpu(self) -> bool:
        return self._device.type == "cuda"

    def set_up(self) -> DeviceFacts:
        """Sets threads, seed and device."""
        if self._context.config.train.torch.compiler != "inductor":
            skip_compiler()
        torch.set_num_threads(self._context.threads)
        if (interop_threads := self._context.config.launch.interop_threads) is not None:
            torch.set_num_interop_threads(interop_threads)  # possible once, before any parallel work
        torch.manual_seed(weights_seed(self._context.config.seed, self._context.member))
        torch.backends.mkldnn.enabled = self._context.config.train.torch.onednn  # type: ignore[assignment]
        if self._on_gpu:
            torch.backends.cudnn.benchmark = True
            if (limit_gib := self._context.config.launch.memory_gib) is not None:
                total = torch.cuda.get_device_properties().total_memory
                torch.cuda.set_per_process_memory_fraction(min(1.0, limit_gib * 2**30 / total))
        torch.ones(2**20).add_(1)  # starts all threads before their affinity is checked
        return DeviceFacts(
            name=torch.cuda.get_device_name() if self._on_gpu else "cpu",
            uuid=f"GPU-{torch.cuda.get_device_properties().uuid}" if self._on_gpu else None,
            threads=torch.get_num_threads(),
            software=describe_torch(),
            interop_threads=torch.get_num_interop_threads(),
        )

    def join(self) -> Store | None:
        """Joins the process group: gloo on CPUs, NCCL on GPUs."""
        self._workers, store = join_group(self._context, self._device)
        return store

    def build(self, data: Data) -> EngineReady:
        """Builds model, optimizer and batches."""
        self._state = build_state(self._context, self._workers, data.sample_shape)
        self._train = self._open(data.train)
        self._largest_pass_px = data.largest_pass_px
        if data.evaluation is not None:
            self._open(data.evaluation)
        return chosen_options(self._context, self._state, is_synthetic=isinstance(data.train, Synthetic))

    def _open(self, source: Source) -> Batches:
        """The batches of a source, cached."""
        if source not in self._batches:
            channels_last = image_memory_format(self._context.config.train) == torch.channels_last
            self._batches[source] = self._batches_of(source, channels_last)
        return self._batches[source]

    def _batches_of(self, source: Source, channels_last: bool) -> Batches:
        if isinstance(source, Resident):
            batches = ResidentBatches(source.split, self._device, channels_last=channels_last)
            source.release_samples()
            return batches
        if not isinstance(source, Synthetic):
            return StreamedBatches(source, self._device, channels_last=channels_last)
        random = torch.Generator(self._device).manual_seed(source.seed)
        task, shape, classes = self._state.task, source.shape, source.num_classes
        return SyntheticBatches(
            shape,
            lambda count: task.random_targets(count, shape, classes, random),
            random,
            channels_last=channels_last,
        )

    def read(self, path: Path) -> Any:
        """Reads a state written by `save` onto the device."""
        try:
            # weights_only: loading a checkpoint must never execute code.
            return torch.load(path, map_location=self._device, weights_only=True)
        except UNREADABLE as error:
            if _is_out_of_memory(error) or isinstance(error, torch.AcceleratorError):
                raise
            raise UnreadableStateError(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}") from error

    def load(self, state: Any) -> None:
        """Restores weights, optimizer, communication and random state."""
        self._whole = None
        try:
            self._state.parallelism.load(state["trained"], self._state.optimizer)
            torch.set_rng_state(state["random_state"].cpu())
            if self._on_gpu:
                torch.cuda.set_rng_state(state["cuda_random_state"].cpu())
        except (RuntimeError, ValueError, LookupError) as error:
            if _is_out_of_memory(error):
                raise
            raise IncompatibleStateError(type(error).__name__) from error

    def measure_ceiling(self) -> dict[str, Any]:
        """The best of several kernels at the run's precision; their memory is excluded from the peak."""
        if self._on_gpu:
            torch.cuda.empty_cache()
        config = self._context.config
        measured = measure_ceiling(self._device, config.measure.ceiling_seconds, config.train.precision)
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        return measured

    def feed(
        self, rows: Rows, views: RowViews | None, passes: Sequence[Passes] | None = None
    ) -> Iterator[Batch | StepPasses]:
        """Inputs and targets of each row, or its passes, on the device."""
        if passes is None:
            assert self._train is not None
            return self._train.take(rows, views)
        return cast(StreamedBatches, self._train).take_passes(rows, views, passes)

    def step(self, batch: Batch | StepPasses, rate: float, decay_factor: float) -> Tensor:
        """One update; the loss stays on the device."""
        state, train = self._state, self._context.config.train
        if self._step is None:  # not in `build`: a state may be loaded in between
            self._step = step_of(state, train.accumulation, captured=train.torch.cuda_graph)
        self._whole = None
        set_weight_decay(state.optimizer, decay_factor)
        set_rate(state.optimizer, rate, train.momentum_correction)
        return self._step(batch)

    def sync_weights(self) -> None:
        """Makes the weights the same on all ranks."""
        self._state.communicator.sync_weights()

    def epoch_facts(self) -> EpochFacts:
        """Measurements of the parallel mode."""
        return self._state.parallelism.facts()

    def why_bytes_uncounted(self) -> str | None:
        """NCCL bypasses TCP sockets; a single rank sends nothing."""
        return why_bytes_uncounted()

    def predict(self, source: DatasetSource, indices: Indices) -> NDArray[np.float32]:
        """Predictions for `indices`, in their order: each rank computes one block, then all-gather."""
        model = self._whole_model()
        shares = np.array_split(indices, self._workers.size)
        share = shares[self._workers.rank]
        some = share if len(share) else np.zeros(1, np.int64)  # an empty share still needs the width of a prediction
        batches, task = cast(DatasetBatches, self._open(source)), self._state.task
        groups = alike(source, some, self._context.config.evaluate.batch_size, self._largest_pass_px)
        in_order = torch.from_numpy(np.argsort(np.concatenate(groups))).to(self._device)
        model.eval()
        with torch.inference_mode(), self._state.arithmetic.forward():
            rows_of_groups = batches.in_order([some[group] for group in groups])
            parts = [task.predictions(model, samples) for samples in rows_of_groups]
        model.train()
        rows = gather_rows(torch.cat(parts)[in_order][: len(share)], [len(each) for each in shares])
        return rows.cpu().numpy().astype(np.float32)

    def prepare_inference(self) -> ForwardPass | str:
        """Evaluation mode without gradients, as compiled and in the layout and precision of training."""
        model = self._state.parallelism.compiled_model()
        if model is None:
            return f"train.parallel={self._context.config.train.parallel} splits the model: no rank holds all of it"
        self._whole_model()  # averages running statistics over the ranks
        model.eval()
        task, arithmetic = self._state.task, self._state.arithmetic

        def forward(batch: Batch | StepPasses) -> Tensor:
            if isinstance(batch, StepPasses):
                assert batch.first is not None
                inputs = batch.first.inputs
            else:
                inputs = batch[0]
            with torch.inference_mode(), arithmetic.forward():
                return task.predictions(model, inputs)

        return forward

    def _whole_model(self) -> nn.Module:
        """The model with all its weights, on every rank; cached until the next step."""
        if self._whole is None:
            self._whole = self._state.parallelism.whole_model()
        return self._whole

    def save(self, file: IO[bytes]) -> None:
        """Writes weights, optimizer, communication and random state."""
        state: dict[str, Any] = {
            "trained": self._state.parallelism.state(self._state.optimizer),
            "random_state": torch.get_rng_state(),
        }
        if self._on_gpu:
            state["cuda_random_state"] = torch.cuda.get_rng_state()
        torch.save(state, file)

    def weights(self) -> dict[str, NDArray[Any]]:
        """The whole model's parameters and buffers."""
        model = self._whole_model()
        return {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}

    def set_weights(self, weights: dict[str, NDArray[Any]]) -> None:
        """Replaces the weights of a model that is whole on every rank."""
        model = self._whole_model()
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})

    def peak_device_bytes(self) -> int | None:
        """Peak of the caching allocator; None on a CPU."""
        return torch.cuda.max_memory_allocated() if self._on_gpu else None

    def take_peak_device_bytes(self) -> int:
        """Peak of the caching allocator since the last call: counted on the host, as operators are launched."""
        peak: int = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return peak

    def barrier(self) -> None:
        """Returns when every rank of the member has called it."""
        barrier()

    def leave(self) -> None:
        """Destroys the process group."""
        leave_group()


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or explain_out_of_memory(error) is not None
