"""Machine events: staging to node-local storage, ceilings, inference, memory, counters, utilisation of nodes."""

from typing import Literal

from pydantic import Field, FiniteFloat, model_validator

from trainmark.spec.events import Event, Part


class StagingStart(Event):
    """Staging of the member's samples to node-local storage begins (MLPerf HPC's staging_start)."""

    kind: Literal["staging_start"] = "staging_start"
    samples: int | None = None
    of_samples: int | None = None
    folder: str | None = None


class StagingStop(Event):
    """Staging is complete: samples, bytes, time, copied or reused (MLPerf HPC's staging_stop)."""

    kind: Literal["staging_stop"] = "staging_stop"
    samples: int
    of_samples: int
    bytes: int
    staging_s: FiniteFloat
    reused: bool
    replaced: str | None = None  # what was wrong with the previous pack
    folder: str | None = None


class CeilingStart(Event):
    """The ceiling measurement begins."""

    kind: Literal["ceiling_start"] = "ceiling_start"


class KernelSpeed(Part):
    """Best and median throughput of one kernel."""

    flops: FiniteFloat
    median_flops: FiniteFloat
    n: int


class CeilingRound(Part):
    """One round of a ceiling measurement; others_s is None if load was not monitored."""

    flops: FiniteFloat
    over_s: FiniteFloat
    others_s: FiniteFloat | None


class Ceiling(Event):
    """Peak throughput of this rank's cores before or after training: FLOP/s per kernel, load by other processes."""

    kind: Literal["ceiling"] = "ceiling"
    flops: FiniteFloat
    kernel: str
    phase: Literal["before", "after"] = "before"
    precision: str | None = None
    kernels: dict[str, KernelSpeed] | None = None
    rounds: list[CeilingRound] | None = None  # None in events of earlier versions
    cores: int = 0
    clock_tick_s: FiniteFloat = 0.0
    unwatched: str | None = None

    @model_validator(mode="after")
    def _rounds_have_their_cores(self) -> "Ceiling":
        if self.rounds is not None and not {"cores", "clock_tick_s", "unwatched"} <= self.model_fields_set:
            raise ValueError("rounds come with cores, clock_tick_s and unwatched")
        return self


class InferenceStart(Event):
    """Timed forward passes of the trained model begin."""

    kind: Literal["inference_start"] = "inference_start"
    batch_size: int


class Inference(Event):
    """Forward passes of the trained model at one batch size: latencies after warm-up, or why there are none."""

    kind: Literal["inference"] = "inference"
    batch_size: int
    latency_s: list[FiniteFloat] = Field(default_factory=list)  # evenly spaced, of at most 2,000 passes
    passes: int = 0  # all that were timed
    over_s: FiniteFloat = 0.0  # the time of all of them
    warmup_passes: int = 0
    reason: str | None = None


class Memory(Event):
    """Peak memory of the rank."""

    kind: Literal["memory"] = "memory"
    resident_bytes: int
    device_bytes: int | None


class StepMemory(Event):
    """Peaks of memory were recorded per step: where, the largest peak so far, or why there are none."""

    kind: Literal["step_memory"] = "step_memory"
    where: str  # accelerator, host
    largest_bytes: int | None = None
    reason: str | None = None


class Counters(Event):
    """Hardware counters of the rank while it trained its steps, in user space; or why there are none."""

    kind: Literal["counters"] = "counters"
    instructions: int | None = None
    cycles: int | None = None
    cache_misses: int | None = None  # of the last level
    reason: str | None = None


class UsageStart(Event):
    """Utilisation sampling of a node begins: what is sampled, and what is unavailable."""

    kind: Literal["usage_start"] = "usage_start"
    cores: str
    interfaces: list[str]
    accelerators: list[str]  # UUIDs
    node: str | None = None
    ranks: list[int] | None = None
    period_s: FiniteFloat | None = None
    pids: list[int] | None = None
    unavailable: dict[str, str] = Field(default_factory=dict)  # source → reason


class CpuUse(Part):
    """Fractions of the cores' time."""

    user: FiniteFloat
    system: FiniteFloat
    iowait: FiniteFloat
    steal: FiniteFloat

    @property
    def busy(self) -> float:
        """Fraction of busy time, of all processes."""
        return self.user + self.system


class ProcessUse(Part):
    """Resources used by the ranks of a node and their child processes."""

    cpu_s: FiniteFloat
    resident_bytes: int | None = None
    processes: int | None = None


class MovedBytes(Part):
    """Bytes transferred by one network interface."""

    received: int
    sent: int


class AcceleratorUse(Part):
    """Utilisation, memory and power of one accelerator."""

    utilisation: FiniteFloat
    memory_bytes: int
    power_w: FiniteFloat | None


class Usage(Event):
    """A member's use of a node since the previous sample: cores, memory, network, accelerators."""

    kind: Literal["usage"] = "usage"
    over_s: FiniteFloat
    cpu: CpuUse | None  # of the member's cores
    node_cpu: CpuUse | None
    processes: ProcessUse | None
    network: dict[str, MovedBytes] | None
    loopback_bytes: int | None
    accelerators: list[AcceleratorUse] | None = None
    unavailable: dict[str, str] = Field(default_factory=dict)
    sampling_s: FiniteFloat | None = None
