"""Result: the metrics of one run, with units, intervals, references to raw samples and reasons for missing values."""

from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from trainmark.spec.config import RunConfig, Section
from trainmark.spec.plan import Plan, plan_as_json, plan_from_json
from trainmark.spec.status import MemberState

Status = Literal["measured", "derived", "unavailable", "predicted"]
Better = Literal["higher", "lower", "neither"]


class Metric(Section):
    """One figure: either a value, or unavailable with a reason."""

    value: float | None
    unit: str
    better: Better
    status: Status
    ci95: tuple[float, float] | None = None
    n: int = 0
    samples_ref: str | None = None
    convention: str | None = None
    exponent: float | None = None
    reason: str | None = None
    detail: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> "Metric":
        if (self.value is None) != (self.status == "unavailable"):
            raise ValueError("a metric has a value unless it is unavailable")
        if self.status == "unavailable" and not self.reason:
            raise ValueError("an unavailable metric says why")
        return self


class MemberResult(Section):
    """The outcome of one member."""

    member: int
    state: MemberState
    attempts: int
    seed: int
    quality: float | None = None
    epochs_done: int | float = 0  # no whole number if the last one was cut short
    restarted: bool = False
    exit: dict[str, Any] | None = None
    reason: str | None = None
    metrics: dict[str, Metric] = Field(default_factory=dict)


def _as_plan(value: Any) -> Plan:
    if isinstance(value, Plan):
        return value
    try:
        return plan_from_json(value)
    except LookupError as error:
        raise ValueError(f"is missing {error}") from None
    except (TypeError, AttributeError):
        raise ValueError("must be a plan as in plan.json") from None


StoredConfig = Annotated[RunConfig, PlainSerializer(lambda config: config.model_dump(exclude_none=True))]
StoredPlan = Annotated[Plan, PlainValidator(_as_plan), PlainSerializer(plan_as_json)]


class Result(Section):
    """The product of a run: result.json."""

    schema_: Literal["trainmark.result/1"] = Field("trainmark.result/1", alias="schema")
    run_id: str
    state: Literal["complete", "partial", "failed", "unfinished"]
    started_at: str
    workload: str
    size: str
    config: StoredConfig
    plan: StoredPlan
    training: dict[str, Any] = Field(default_factory=dict)
    machine: dict[str, Any]
    software: dict[str, Any]
    engine: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Metric]
    members: list[MemberResult]
    warnings: list[str]
    damage: list[str] = Field(default_factory=list)
    provenance: dict[str, Any]

    def as_json(self) -> str:
        """The text of result.json."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def unavailable(unit: str, better: Better, reason: str) -> Metric:
    """Returns a metric without a value and the reason."""
    return Metric(value=None, unit=unit, better=better, status="unavailable", reason=reason)
