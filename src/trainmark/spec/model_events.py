"""The event of a built model: its parameters and FLOPs, by operator, convention and layer."""

from typing import Literal

from pydantic import Field, FiniteFloat

from trainmark.spec.events import Event, Part


class OperatorFlops(Part):
    """FLOPs of a detector's proposal, total and by operator."""

    training: FiniteFloat
    operators: dict[str, FiniteFloat] = Field(default_factory=dict)
    forward: FiniteFloat | None = None


class SampleFlops(OperatorFlops):
    """FLOPs of one sample in one convention."""

    training_plain_3x: FiniteFloat | None = None
    operators_forward: dict[str, FiniteFloat] | None = None
    rule: str | None = None
    per_proposal: OperatorFlops | None = None

    def training_with(self, proposals: float) -> float:
        """Returns the training FLOPs of a sample with this many proposals (no cost in models without any)."""
        return self.training + (proposals * self.per_proposal.training if self.per_proposal else 0.0)


class LayerCost(Part):
    """Cost of one layer per sample."""

    layer: str
    kind: str
    output_shape: list[int]
    parameters: int
    forward: FiniteFloat
    training: FiniteFloat
    activation_bytes: int
    arithmetic_intensity: FiniteFloat


class ModelReady(Event):
    """The model is built: parameters, FLOPs by operator and convention."""

    kind: Literal["model_ready"] = "model_ready"
    model: str
    conventions: dict[str, SampleFlops]
    input_shape: list[int] | None = None
    parameters: int | None = None
    activation_bytes: int | None = None
    moved_bytes: dict[str, int] | None = None
    arithmetic_intensity: FiniteFloat | None = None
    layers: list[LayerCost] | None = None
