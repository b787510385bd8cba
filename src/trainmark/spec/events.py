"""Events: what each rank measured, one declared type per kind; see also model_events and machine_events."""

from typing import Any, ClassVar, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, FiniteFloat


class Part(BaseModel):
    """A group of event fields; those with a default are missing in some versions or modes."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", protected_namespaces=())


class Event(Part):
    """One line of an event file; the log adds the clocks on writing."""

    kind: str
    wall_s: FiniteFloat = 0.0  # Unix time
    monotonic_s: FiniteFloat = 0.0  # the host's monotonic clock
    OF_LINE: ClassVar = frozenset({"kind", "wall_s", "monotonic_s"})

    def facts(self) -> dict[str, Any]:
        """Returns all fields that were set, except kind and clocks, as plain values."""
        return self.model_dump(exclude=set(self.OF_LINE), exclude_unset=True)


class Affinity(Part):
    """Requested and actual cores and threads of a rank."""

    cores_asked: str
    cores_allowed: str
    threads_asked: int
    threads_running: int
    verified: bool
    interop_threads_asked: int | None = None  # None: the engine's default
    interop_threads_running: int | None = None  # None: the engine has none


class RankStarted(Event):
    """The process has started: host, pid, cores, threads, software."""

    kind: Literal["rank_started"] = "rank_started"
    affinity: Affinity
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    device: str | None = None
    device_uuid: str | None = None
    environment: dict[str, str] | None = None
    allocator: str | None = None  # actually loaded
    software: dict[str, str] = {}  # of its Python: versions, and the engine's build and choices on this device
    torch: str | None = None  # written by earlier versions
    torch_isa: str | None = None

    def of_software(self) -> dict[str, Any]:
        """Returns software, device and environment as reported by the rank."""
        engine: dict[str, str | None] = {"torch": self.torch, "torch_isa": self.torch_isa, **self.software}
        return {**engine, "device": self.device, "environment": self.environment, "allocator": self.allocator}


class DataReady(Event):
    """The dataset is open: name, number of bootstrap draws, fingerprint."""

    kind: Literal["data_ready"] = "data_ready"
    draws: int
    fingerprint: str
    dataset: str | None = None
    synthetic: bool = False
    kept: str | None = None  # where training reads its samples from
    steps_per_epoch: int | None = None  # None in events of earlier versions


class EngineReady(Event):
    """Active options of the training engine, and the arithmetic actually used."""

    kind: Literal["engine_ready"] = "engine_ready"
    synthetic: bool | None = None
    precision: str | None = None
    arithmetic: str | None = None
    optimizer: str | None = None
    optimizer_form: str | None = None
    threads: int | None = None
    interop_threads: int | None = None
    thread_binding: str | None = None
    allocator: str | None = None
    memory_format: str | None = None
    compiler: str | None = None
    cuda_graph: bool | None = None
    recompute: bool | None = None
    offload: str | None = None
    parallel: str | None = None
    communication: str | None = None
    communication_precision: str | None = None
    batch_norm: str | None = None
    replicas: int | None = None
    stages: int | None = None
    global_batch: int | None = None
    further: dict[str, str | bool | int | FiniteFloat | None] = {}  # engine-specific

    def options(self) -> dict[str, Any]:
        """Returns all options by name, as in the Result."""
        return {**{name: value for name, value in self.facts().items() if name != "further"}, **self.further}


class StartWait(Event):
    """The rank is set up and waits for the other members at the start barrier."""

    kind: Literal["start_wait"] = "start_wait"


class CheckpointDamaged(Event):
    """A checkpoint of an earlier attempt is damaged on some ranks; the previous one is tried."""

    kind: Literal["checkpoint_damaged"] = "checkpoint_damaged"
    checkpoint: str
    ranks: list[int] | None = None
    reason: str | None = None  # None on ranks whose file is intact


class Resumed(Event):
    """Training resumes from a checkpoint of an earlier attempt."""

    kind: Literal["resumed"] = "resumed"
    checkpoint: str
    epoch: int | None = None
    step: int | None = None
    trained_s: FiniteFloat = 0.0  # by earlier attempts, up to the checkpoint


class RunStart(Event):
    """Training begins (MLPerf's run_start)."""

    kind: Literal["run_start"] = "run_start"
    epoch: int


class EpochStart(Event):
    """An epoch begins."""

    kind: Literal["epoch_start"] = "epoch_start"
    epoch: int
    step: int | None = None


class Steps(Event):
    """A block of steps: durations, data waits, losses (None if not finite), learning rates."""

    kind: Literal["steps"] = "steps"
    first_step: int
    step_s: list[FiniteFloat]
    wait_s: list[FiniteFloat]
    loss: list[FiniteFloat | None]
    learning_rate: list[FiniteFloat] = []
    epoch: int | None = None
    # With images of unlike shape, of all workers of the member together; FLOPs on rank 0 only.
    samples: list[int] = []
    informative_px: list[int] = []
    total_px: list[int] = []
    flop: dict[str, list[FiniteFloat]] = {}  # convention → at the padded shapes
    memory_bytes: list[int] = []  # measure.step_memory: peak of this worker in each step


class EpochStop(Event):
    """An epoch ended, or training within it: samples, time, harness overhead, and figures of the parallel mode."""

    kind: Literal["epoch_stop"] = "epoch_stop"
    epoch: int
    next_step: int
    samples: int  # of all workers
    steps_per_epoch: int | None = None  # of a whole one; None in events of earlier versions
    epoch_s: FiniteFloat
    harness_s: FiniteFloat
    sent_bytes: int | None = None
    sent_intra_node_bytes: int | None = None
    sent_inter_node_bytes: int | None = None
    sent_reason: str | None = None  # why bytes are not counted
    waited_s: FiniteFloat | None = None  # for other workers
    waited_reason: str | None = None
    busy_s: FiniteFloat | None = None
    step_s: FiniteFloat | None = None
    bubble_share: FiniteFloat | None = None
    ideal_bubble_share: FiniteFloat | None = None
    staleness: list[int] = []
    images_seen: int | None = None
    proposals_seen: int | None = None

    @property
    def epochs_done(self) -> float:
        """Epochs trained so far, also by earlier attempts; not a whole number if the last one was cut short."""
        return self.next_step / self.steps_per_epoch if self.steps_per_epoch else float(self.epoch + 1)


class EpochFacts(TypedDict, total=False):
    """Figures that tasks, communicators and parallel modes may report per epoch; each is a field of EpochStop."""

    sent_bytes: int | None
    sent_intra_node_bytes: int | None
    sent_inter_node_bytes: int | None
    sent_reason: str
    waited_s: float | None
    waited_reason: str
    busy_s: float
    step_s: float
    bubble_share: float | None
    ideal_bubble_share: float
    staleness: list[int]
    images_seen: int
    proposals_seen: int


class Evaluation(Event):
    """Quality on held-out samples."""

    kind: Literal["evaluation"] = "evaluation"
    epoch: int
    quality: FiniteFloat
    evaluation_s: FiniteFloat | None = None
    samples: int | None = None  # None in events of earlier versions


class Checkpoint(Event):
    """A checkpoint was written."""

    kind: Literal["checkpoint"] = "checkpoint"
    epoch: int | None = None
    step: int | None = None


class RunStop(Event):
    """Training and its last evaluation ended (MLPerf's run_stop)."""

    kind: Literal["run_stop"] = "run_stop"
    quality: FiniteFloat | None = None
    step: int | None = None  # the number of steps trained, also by earlier attempts; not in earlier versions


class Failed(Event):
    """The rank failed: message and traceback."""

    kind: Literal["failed"] = "failed"
    error: str
    type: str | None = None
    traceback: str | None = None


class Finished(Event):
    """The rank completed."""

    kind: Literal["finished"] = "finished"
