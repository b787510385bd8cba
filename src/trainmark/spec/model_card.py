"""ModelCard: what planning needs to know about a model, as plain data readable without a framework."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError, PlanError
from trainmark.spec.registry import load_attribute
from trainmark.spec.units import show_shape

# oneDNN issue 6035: the weight gradient of a strided 1×1 convolution in channels-last overruns its buffer below one
# block of input channels (8 floats with AVX2, 16 with AVX-512). Results must not depend on the CPU, so the larger
# block applies everywhere.
BLOCK_CHANNELS = 16


@dataclass(frozen=True)
class ModelCard:
    """A model as selected, checked and counted, with one builder per engine that can train it."""

    name: str
    description: str  # one line, for `trainmark list models`
    input_shape: tuple[int, ...]  # of one sample; images are channels, height, width
    builders: Mapping[str, str]  # engine → "module:attribute" of a function that takes the settings
    task: str = "classification"
    settings: Mapping[str, Setting] = field(default_factory=dict)  # name → default
    allowed: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)  # setting → its only valid values
    num_layers: int | None = None  # top-level layers with weights; None: it cannot be split by layers
    smallest_side: int = 1  # of an image
    one_feature_side: int = 0  # up to this height and width an image leaves batch normalisation one value per channel
    any_shape: bool = False  # images of any height and width, which it averages before its classifier
    has_fixed_shapes: bool = True  # False: internal shapes depend on the data
    has_batch_norm: bool = True  # False: settings of batch normalisation would have no effect
    blocked_layout: bool = False  # all operators support oneDNN's blocked layout, the default on CPUs then
    strided_1x1_input: str | None = None  # setting with the input channels of the narrowest strided 1×1 convolution

    def build(self, engine: str, settings: Mapping[str, Setting]) -> Any:
        """Builds the model with the engine's builder; raises if there is none."""
        if engine not in self.builders:
            raise PlanError(
                f"The engine '{engine}' has no builder for {self.name}; available: "
                f"{', '.join(self.builders) or 'none'}. "
                "Choose another model, or another engine."
            )
        builder = load_attribute(self.builders[engine], f"{engine} builder of '{self.name}'")
        return builder(**settings)

    def value_of(self, setting: str, settings: Mapping[str, Setting]) -> Setting | None:
        """Returns the chosen value of a setting, else its default; None if the model has no such setting."""
        return settings.get(setting, self.settings.get(setting))

    def is_too_small(self, shape: Sequence[int]) -> bool:
        """Whether images of `shape` (channels, height, width) are below the model's smallest side."""
        return len(shape) == 3 and min(shape[1:]) < self.smallest_side

    def narrow_channels(self, settings: Mapping[str, Setting]) -> int | None:
        """Returns the input channels of the narrowest strided 1×1 convolution if below one block, else None."""
        if self.strided_1x1_input is None:
            return None
        channels = self.value_of(self.strided_1x1_input, settings)
        return channels if isinstance(channels, int) and channels < BLOCK_CHANNELS else None

    def parse_input(self, text: str) -> tuple[int, ...]:
        """Parses `3x224x224`; raises if the model does not support the number of dimensions or the image size."""
        parts = text.lower().replace("×", "x").split("x")
        if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise ConfigError(f"'{text}' is not an input shape. Give channels, height and width, such as 3x224x224.")
        shape = tuple(int(part) for part in parts)
        if len(shape) != len(self.input_shape):
            raise ConfigError(
                f"The input of {self.name} has {len(self.input_shape)} dimensions, such as "
                f"{show_shape(self.input_shape)}, but {show_shape(shape)} has {len(shape)}. Choose another --input."
            )
        if self.is_too_small(shape):
            raise ConfigError(
                f"The model '{self.name}' does not support {show_shape(shape)}: it needs images of at least "
                f"{self.smallest_side} × {self.smallest_side}. Choose another --input."
            )
        return shape
