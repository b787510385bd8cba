"""The resolutions of a convolutional network: which sizes its tensors have, as functions of the image's size."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from trainmark.spec.errors import ConfigError
from trainmark.workloads.flops.trace import SAMPLES

aten = torch.ops.aten

Sides = NDArray[np.int64]
# Large and prime, so that sizes which differ for any image differ for one of these.
PROBES = ((1021, 1409), (1733, 1327), (2011, 1151), (1279, 1867))


class Side(NamedTuple):
    """A side of a tensor: (n + offset) // stride for images whose side is n."""

    offset: int = 0
    stride: int = 1

    def of(self, sides: Sides) -> Sides:
        """Returns the side for each side of an image."""
        return (sides + self.offset) // self.stride

    def after(self, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> "Side":
        """Returns the side after a sliding window."""
        # (m + 2p − d(k − 1) − 1) // s + 1 = (m + b) // s; floors of floors are floors: ((n + a) // r + b) // s =
        # (n + a + b·r) // (r·s).
        shift = 2 * padding - dilation * (kernel - 1) - 1 + stride + (stride - 1) * ceil
        return Side(self.offset + shift * self.stride, self.stride * stride)


class Resolution(NamedTuple):
    """Height and width of the tensors at one depth of a network."""

    height: Side = Side()
    width: Side = Side()

    def area(self, heights: Sides, widths: Sides) -> Sides:
        """Returns the number of pixels for each size of an image."""
        return self.height.of(heights) * self.width.of(widths)


class _Window(NamedTuple):
    """A sliding window by its settings, each for height and width."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil: bool = False

    def applied(self, to: Resolution) -> Resolution:
        sides = zip(to, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return Resolution(*(side.after(k, s, p, d, self.ceil) for side, k, s, p, d in sides))


class _Seen(NamedTuple):
    """A window that ran, and the sizes that it took and gave."""

    window: _Window
    size_in: tuple[int, ...]
    size_out: tuple[int, ...]


def find_resolutions(model: nn.Module, name: str, channels: int) -> tuple[Resolution, ...]:
    """Returns all resolutions of a model on the meta device, the image's own first; raises if a size is another."""
    runs = [_windows(model, (SAMPLES, channels, *size)) for size in PROBES]
    probes = np.array(PROBES, np.int64)
    known = {PROBES: Resolution()}  # sizes of a tensor at all probes → its resolution
    for seen in zip(*runs, strict=True):
        sizes_in, sizes_out = (tuple(getattr(each, end) for each in seen) for end in ("size_in", "size_out"))
        if len(set(sizes_in)) == 1:  # the same for all images, as after adaptive pooling
            continue
        if sizes_in not in known:
            raise _refused(name, f"sizes such as {sizes_in[0]} come from no convolution or pooling")
        found = seen[0].window.applied(known[sizes_in])
        heights, widths = (side.of(of_images).tolist() for side, of_images in zip(found, probes.T, strict=True))
        if tuple(zip(heights, widths, strict=True)) != sizes_out or known.get(sizes_out, found) != found:
            raise _refused(name, f"the size {sizes_out[0]} after {sizes_in[0]} is not that of a sliding window")
        known[sizes_out] = found
    return tuple(known.values())


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(f"The cost of '{name}' by the shape of images is not known: {reason}.")


def _windows(model: nn.Module, shape: tuple[int, ...]) -> list[_Seen]:
    recorder = _WindowRecorder()
    with torch.no_grad(), recorder:
        model(torch.empty(shape, device="meta"))
    return recorder.seen


class _WindowRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the convolutions and poolings that run inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[_Seen] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if (window := _window(func.overloadpacket, args)) is not None:
            first = out[0] if isinstance(out, tuple) else out
            self.seen.append(_Seen(window, tuple(args[0].shape[2:]), tuple(first.shape[2:])))
        return out


def _window(kind: Any, args: tuple[Any, ...]) -> _Window | None:
    """Returns the sliding window of an operator; None if it is none, or goes the other way."""
    if kind == aten.convolution and not args[6] and args[1].dim() == 4:
        return _Window(tuple(args[1].shape[2:]), _pair(args[3]), _pair(args[4]), _pair(args[5]))
    if kind == aten.max_pool2d_with_indices:
        kernel, stride, padding, dilation, ceil = _with_defaults(args[1:], (None, (), 0, 1, False))
        return _Window(_pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation), ceil)
    if kind == aten.avg_pool2d:
        kernel, stride, padding, ceil = _with_defaults(args[1:5], (None, (), 0, False))
        return _Window(_pair(kernel), _pair(stride or kernel), _pair(padding), (1, 1), ceil)
    return None


def _with_defaults(given: Sequence[Any], defaults: Sequence[Any]) -> tuple[Any, ...]:
    return (*given, *defaults[len(given) :])


def _pair(value: int | Sequence[int]) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * 2 if len(values) == 1 else values
