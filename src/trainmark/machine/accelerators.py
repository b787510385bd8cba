"""Accelerators of this machine and their utilisation, read through NVML; no torch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Accelerator:
    """One accelerator; `index` is its number on the node, in the order of the PCI bus."""

    index: int
    name: str
    memory_bytes: int
    has_bf16: bool = True


def find_accelerators() -> tuple[Accelerator, ...]:
    """Returns the NVIDIA devices visible to this process; empty without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = {i: pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())}
        names = {i: str(pynvml.nvmlDeviceGetUUID(handle)) for i, handle in handles.items()}
        return tuple(
            Accelerator(
                index=i,
                name=str(pynvml.nvmlDeviceGetName(handles[i])),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handles[i]).total),
                # Tensor cores compute in bf16 since Ampere, compute capability 8.
                has_bf16=pynvml.nvmlDeviceGetCudaComputeCapability(handles[i])[0] >= 8,
            )
            for i in visible_indices(names, os.environ.get("CUDA_VISIBLE_DEVICES"))
        )
    finally:
        pynvml.nvmlShutdown()


def visible_indices(names: dict[int, str], visible: str | None) -> list[int]:
    """Returns the devices selected by CUDA_VISIBLE_DEVICES, by index or UUID prefix, in its order."""
    if visible is None:
        return sorted(names)
    found = []
    for entry in (part.strip() for part in visible.split(",")):
        matches = [i for i, name in names.items() if entry and (entry == str(i) or name.startswith(entry))]
        if not matches:  # like CUDA, which ignores everything after an unknown device
            break
        found.append(matches[0])
    return found


class AcceleratorUsage(NamedTuple):
    """A sample of one accelerator; `utilisation` is the share of the sampling period in which a kernel ran."""

    utilisation: float
    memory_bytes: int
    power_w: float | None


class AcceleratorMeter:
    """Samples accelerators, keeping NVML open; raises pynvml.NVMLError without a driver."""

    def __init__(self, uuids: Sequence[str]) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]

    def read(self) -> list[AcceleratorUsage]:
        """Returns a sample of each accelerator, in the order of `uuids`."""
        return [self._read(handle) for handle in self._handles]

    def _read(self, handle: Any) -> AcceleratorUsage:
        return AcceleratorUsage(
            utilisation=self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            memory_bytes=int(self._nvml.nvmlDeviceGetMemoryInfo(handle).used),
            power_w=self._power_w(handle),
        )

    def _power_w(self, handle: Any) -> float | None:
        try:
            milliwatts: float = self._nvml.nvmlDeviceGetPowerUsage(handle)
        except self._nvml.NVMLError:  # not supported by all boards
            return None
        return milliwatts / 1000
