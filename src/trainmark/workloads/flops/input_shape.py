"""Input shapes as people write them."""

from trainmark.spec.errors import ConfigError


def parse_shape(text: str) -> tuple[int, ...]:
    """(3, 224, 224) for `3x224x224`."""
    parts = text.lower().replace("×", "x").split("x")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise ConfigError(f"'{text}' is no input shape. Write channels, height and width like this: 3x224x224.")
    return tuple(int(part) for part in parts)
