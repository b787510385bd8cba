"""Random images of any shape, generated once on the device: for throughput only; quality is not measured."""

from pydantic import Field

from trainmark.data.split import MAX_SAMPLES, SplitName
from trainmark.spec.config import StrictSection


class SyntheticSettings(StrictSection):
    """The shape of the images, and how many an epoch has."""

    num_train: int = Field(12_800, ge=1, le=MAX_SAMPLES, description="images of one epoch")
    channels: int | None = Field(None, ge=1, description="channels of an image; default: the model's")
    height: int | None = Field(None, ge=1, description="pixels from top to bottom; default: the model's")
    width: int | None = Field(None, ge=1, description="pixels from left to right; default: the model's")
    num_classes: int = Field(10, ge=2, description="number of classes of random labels; default: the model's")


class Synthetic:
    """Random images of any shape, generated once on the device: for throughput only; quality is not measured."""

    Settings = SyntheticSettings
    augmentations = ("none",)
    task = "any"
    is_synthetic = True

    def __init__(self, settings: SyntheticSettings) -> None:
        self.settings = settings

    def num_samples(self, split: SplitName) -> int:
        """Images of one epoch; none are held out."""
        return self.settings.num_train if split == "train" else 0

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Channels, height and width; defaults are filled in by the plan."""
        shape = (self.settings.channels, self.settings.height, self.settings.width)
        return tuple(size for size in shape if size is not None)
