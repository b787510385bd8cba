"""How busy accelerators are, how much memory and power they use, asked of NVIDIA's management library."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class AcceleratorUsage(NamedTuple):
    """One accelerator now; `utilisation` is the share of the last moments in which any kernel ran on it."""

    utilisation: float
    memory_bytes: int
    power_w: float | None


class AcceleratorMeter:
    """Keeps the library open and the accelerators at hand; raises pynvml.NVMLError where there is none."""

    def __init__(self, uuids: Sequence[str]) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]

    def read(self) -> list[AcceleratorUsage]:
        """Each accelerator, in the order in which they were named."""
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
        except self._nvml.NVMLError:  # some boards do not tell
            return None
        return milliwatts / 1000
