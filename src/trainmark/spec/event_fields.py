"""The fields that readers of events rely on, by kind: a line without them is damaged, whatever JSON it holds."""

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError, model_validator


class Fields(BaseModel):
    """What is checked of a JSON object; it may hold more."""

    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class AnyEvent(Fields):
    """What every event has."""

    kind: str


class TimedEvent(AnyEvent):
    """An event whose moment matters."""

    wall_s: FiniteFloat


class Affinity(Fields):
    """Where a rank was to run, and where it runs."""

    cores_asked: str
    cores_allowed: str
    threads_asked: int
    threads_running: int
    verified: bool


class RankStarted(TimedEvent):
    """Of `rank_started`."""

    affinity: Affinity


class DataReady(TimedEvent):
    """Of `data_ready`."""

    draws: int
    fingerprint: str


class FlopsByOperator(Fields):
    """A detector's cost of one proposal."""

    training: FiniteFloat
    operators: dict[str, FiniteFloat] = {}


class FlopCount(FlopsByOperator):
    """A model's cost of one sample in one convention."""

    per_proposal: FlopsByOperator | None = None


class ModelReady(TimedEvent):
    """Of `model_ready`."""

    model: str
    conventions: dict[str, FlopCount]


class CeilingRound(Fields):
    """One round of a ceiling measurement."""

    flops: FiniteFloat
    over_s: FiniteFloat
    others_s: FiniteFloat | None


class Ceiling(TimedEvent):
    """Of `ceiling`; those of earlier versions have no rounds."""

    flops: FiniteFloat
    kernel: str
    rounds: list[CeilingRound] | None = None
    cores: int = 0
    clock_tick_s: FiniteFloat = 0.0
    unwatched: str | None = None

    @model_validator(mode="after")
    def _rounds_have_their_cores(self) -> "Ceiling":
        if self.rounds is not None and not {"cores", "clock_tick_s", "unwatched"} <= self.model_fields_set:
            raise ValueError("rounds come with cores, clock_tick_s and unwatched")
        return self


class FromCheckpoint(TimedEvent):
    """Of `resumed` and `checkpoint_damaged`."""

    checkpoint: str


class Failed(TimedEvent):
    """Of `failed`."""

    error: str


class StagingStop(TimedEvent):
    """Of `staging_stop`."""

    samples: int
    of_samples: int
    bytes: FiniteFloat
    staging_s: FiniteFloat
    reused: bool


class OfEpoch(TimedEvent):
    """Of `run_start`, `epoch_start` and all that belong to one epoch."""

    epoch: int


class Steps(TimedEvent):
    """Of `steps`."""

    first_step: int
    step_s: list[FiniteFloat]
    wait_s: list[FiniteFloat]
    loss: list[FiniteFloat | None]
    learning_rate: list[FiniteFloat] = []


class EpochStop(OfEpoch):
    """Of `epoch_stop`."""

    next_step: int
    samples: int
    epoch_s: FiniteFloat
    harness_s: FiniteFloat
    sent_bytes: FiniteFloat | None = None
    sent_intra_node_bytes: FiniteFloat | None = None
    sent_inter_node_bytes: FiniteFloat | None = None
    waited_s: FiniteFloat | None = None
    bubble_share: FiniteFloat | None = None
    staleness: list[FiniteFloat] = []


class Evaluation(OfEpoch):
    """Of `evaluation`."""

    quality: FiniteFloat


class Memory(TimedEvent):
    """Of `memory`."""

    resident_bytes: FiniteFloat
    device_bytes: FiniteFloat | None


class UsageStart(AnyEvent):
    """Of `usage_start`."""

    cores: str
    interfaces: list[str]
    accelerators: list[str]


class CpuShares(Fields):
    """Shares of cores' time."""

    user: FiniteFloat
    system: FiniteFloat
    iowait: FiniteFloat
    steal: FiniteFloat


class ProcessUse(Fields):
    """What a member's processes used."""

    cpu_s: FiniteFloat


class Moved(Fields):
    """Bytes through one network interface."""

    received: FiniteFloat
    sent: FiniteFloat


class AcceleratorUse(Fields):
    """What one accelerator did."""

    utilisation: FiniteFloat
    memory_bytes: FiniteFloat
    power_w: FiniteFloat | None


class Usage(TimedEvent):
    """Of `usage`."""

    over_s: FiniteFloat
    cpu: CpuShares | None
    node_cpu: CpuShares | None
    processes: ProcessUse | None
    network: dict[str, Moved] | None
    loopback_bytes: FiniteFloat | None
    accelerators: list[AcceleratorUse] | None = None


FIELDS: dict[str, type[AnyEvent]] = {
    "rank_started": RankStarted,
    "data_ready": DataReady,
    "model_ready": ModelReady,
    "ceiling": Ceiling,
    "staging_stop": StagingStop,
    "run_start": OfEpoch,
    "epoch_start": OfEpoch,
    "steps": Steps,
    "epoch_stop": EpochStop,
    "evaluation": Evaluation,
    "run_stop": TimedEvent,
    "resumed": FromCheckpoint,
    "checkpoint_damaged": FromCheckpoint,
    "failed": Failed,
    "memory": Memory,
    "usage_start": UsageStart,
    "usage": Usage,
}


def is_event(value: object) -> bool:
    """Whether a line's JSON is an event with the fields of its kind; of unknown kinds nothing is asked."""
    kind = value.get("kind") if isinstance(value, dict) else None
    fields = FIELDS.get(kind, AnyEvent) if isinstance(kind, str) else AnyEvent
    try:
        fields.model_validate(value)
    except ValidationError:
        return False
    return True
