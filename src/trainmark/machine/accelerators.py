"""The accelerators of this machine, asked of NVIDIA's management library without loading torch."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """One accelerator; `index` is its position among the visible ones."""

    index: int
    name: str
    memory_bytes: int


def find_accelerators() -> tuple[Accelerator, ...]:
    """The NVIDIA devices that this process may see; none where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            handles = [handles[int(i)] for i in visible.split(",") if i.isdigit() and int(i) < len(handles)]
        return tuple(
            Accelerator(i, str(pynvml.nvmlDeviceGetName(h)), int(pynvml.nvmlDeviceGetMemoryInfo(h).total))
            for i, h in enumerate(handles)
        )
    finally:
        pynvml.nvmlShutdown()
