"""Input shapes as people write them, checked against what a model's module states."""

from trainmark.spec.errors import ConfigError
from trainmark.spec.registries import MODELS
from trainmark.spec.units import show_shape
from trainmark.workloads.smallest import too_small


def parse_shape(text: str, model: str) -> tuple[int, ...]:
    """(3, 224, 224) for `3x224x224`, if the model can take as many numbers and so small an image."""
    parts = text.lower().replace("×", "x").split("x")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"'{text}' is not an input shape. Write channels, height and width like this: 3x224x224.")
    shape = tuple(int(part) for part in parts)
    own = MODELS.constant(model, "INPUT_SHAPE")
    if own is not None and len(shape) != len(own):
        raise ConfigError(
            f"An input of {model} needs {len(own)} numbers, like {show_shape(own)}, but {show_shape(shape)} has "
            f"{len(shape)}. Choose another --input."
        )
    if (smallest := too_small(model, shape)) is not None:
        raise ConfigError(
            f"The model '{model}' cannot take an input of {show_shape(shape)}: it needs images of at least "
            f"{smallest} × {smallest}. Choose another --input."
        )
    return shape
