"""Events of what the machine can do and what of it was used: ceilings, memory, the utilisation of nodes over time."""

from typing import Literal

from pydantic import Field, FiniteFloat, model_validator

from trainmark.spec.events import Event, Part


class CeilingStart(Event):
    """Measuring of the ceiling begins."""

    kind: Literal["ceiling_start"] = "ceiling_start"


class KernelSpeed(Part):
    """What one kernel reached at best, and in the median of its calls."""

    flops: FiniteFloat
    median_flops: FiniteFloat
    n: int


class CeilingRound(Part):
    """One round of a ceiling measurement; others_s is None where load was not watched."""

    flops: FiniteFloat
    over_s: FiniteFloat
    others_s: FiniteFloat | None


class Ceiling(Event):
    """What this rank's cores can do, before or after training: FLOP/s of each kernel, load by others."""

    kind: Literal["ceiling"] = "ceiling"
    flops: FiniteFloat
    kernel: str
    phase: Literal["before", "after"] = "before"
    precision: str | None = None
    kernels: dict[str, KernelSpeed] | None = None
    rounds: list[CeilingRound] | None = None  # None in events of earlier versions
    cores: int = 0
    clock_tick_s: FiniteFloat = 0.0
    no_progress: str | None = None

    @model_validator(mode="after")
    def _rounds_have_their_cores(self) -> "Ceiling":
        if self.rounds is not None and not {"cores", "clock_tick_s", "no_progress"} <= self.model_fields_set:
            raise ValueError("rounds come with cores, clock_tick_s and no_progress")
        return self


class Memory(Event):
    """The peak of the rank's memory."""

    kind: Literal["memory"] = "memory"
    resident_bytes: int
    device_bytes: int | None


class UsageStart(Event):
    """Sampling of a node's utilisation begins: what is watched there, and what cannot be."""

    kind: Literal["usage_start"] = "usage_start"
    cores: str
    interfaces: list[str]
    accelerators: list[str]  # UUIDs
    node: str | None = None
    ranks: list[int] | None = None
    period_s: FiniteFloat | None = None
    pids: list[int] | None = None
    unavailable: dict[str, str] = Field(default_factory=dict)  # reasons for what cannot be sampled


class CpuUse(Part):
    """Shares of cores' time."""

    user: FiniteFloat
    system: FiniteFloat
    iowait: FiniteFloat
    steal: FiniteFloat

    @property
    def busy(self) -> float:
        """The share in which they computed, for whomever."""
        return self.user + self.system


class ProcessUse(Part):
    """What the ranks on a node and all that they started used."""

    cpu_s: FiniteFloat
    resident_bytes: int | None = None
    processes: int | None = None


class MovedBytes(Part):
    """Bytes through one network interface."""

    received: int
    sent: int


class AcceleratorUse(Part):
    """What one accelerator did."""

    utilisation: FiniteFloat
    memory_bytes: int
    power_w: FiniteFloat | None


class Usage(Event):
    """What a member used of a node since the sample before: cores, memory, network, accelerators."""

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
