"""RunConfig: every choice of one run, resolved: no field is left to be guessed later."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Setting = str | int | float | bool


class Section(BaseModel):
    """A frozen group of settings; keys it does not know are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StrictSection(Section):
    """A section whose values are taken as they are: "3" is no number, and 1 is not true."""

    model_config = ConfigDict(strict=True)


class EnsembleConfig(StrictSection):
    """How many base models, trained by how many workers each (Eq. 5)."""

    members: int | None = Field(None, ge=1, le=1_000_000, description="base models in the ensemble (M)")
    workers: int | None = Field(None, ge=1, le=1_000_000, description="workers that train one member together (P)")
    system_scale: int | None = Field(None, ge=1, le=1_000_000, description="workers in all: members × workers (Eq. 5)")
    bootstrap: Literal["poisson", "multinomial", "none"] = Field(
        "poisson", description="how a member's training samples are drawn"
    )


class TrainConfig(StrictSection):
    """The recipe: how each member is trained."""

    epochs: int = Field(ge=1, description="passes over the member's bootstrap")
    batch_size: int = Field(ge=1, description="samples a worker processes in one step")
    optimizer: str = Field(description="name from `trainmark list optimizers`")
    learning_rate: float = Field(gt=0, description="rate at the reference batch size")
    reference_batch_size: int = Field(
        ge=1, description="global batch for which learning_rate is meant; linear scaling starts here"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of the optimizer")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty")
    schedule: str = Field(description="name from `trainmark list schedules`")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of gradual warm-up")
    decay_power: float = Field(1.0, ge=0, description="power of the polynomial decay after warm-up; 0 keeps the rate")
    precision: Literal["fp32"] = Field("fp32", description="number format of the training arithmetic")
    memory_format: Literal["channels-last", "contiguous"] = Field(
        "channels-last", description="layout of images and convolution weights in memory"
    )


class EvaluateConfig(StrictSection):
    """How quality is measured and what it is measured against."""

    target_quality: float = Field(ge=0.001, description="quality that VFLOPS is weighed against (Eq. 8)")
    exponent: float = Field(ge=0, le=100, description="n of Eq. 8, the sensitivity of VFLOPS to quality")
    every_epochs: int = Field(1, ge=1, description="epochs between evaluations; the last epoch is always evaluated")
    batch_size: int = Field(250, ge=1, description="samples per evaluation step")
    out_of_bag: bool = Field(True, description="also predict the samples each member has not seen")


class LaunchConfig(StrictSection):
    """How the members' jobs are started."""

    launcher: str = Field("local", description="name from `trainmark list launchers`")
    threads: int | None = Field(None, ge=1, description="threads per worker; default: one per core of its slot")
    allocator: Literal["keep", "system"] = Field(
        "keep", description="keep: glibc keeps freed memory (fewer page faults); system: leave it as it is"
    )
    checkpoint_epochs: int = Field(1, ge=0, description="epochs between checkpoints; 0 writes none")


class MeasureConfig(StrictSection):
    """What is measured beside the training itself."""

    ceiling: bool = Field(True, description="measure what the cores can do, just before training")
    ceiling_seconds: float = Field(0.3, gt=0, description="time given to each ceiling kernel")


class RunConfig(StrictSection):
    """All choices of one run; stored with its Result and enough to repeat it."""

    workload: str = Field(description="name from `trainmark list workloads`")
    size: str = Field(description="size of the workload: tiny or full")
    seed: int = Field(1, ge=0, description="seed of bootstrap, initial weights and shuffling")
    ensemble: EnsembleConfig = EnsembleConfig()
    data: dict[str, Setting] = Field(default_factory=dict, description="settings of the workload's dataset")
    train: TrainConfig
    evaluate: EvaluateConfig
    launch: LaunchConfig = LaunchConfig()
    measure: MeasureConfig = MeasureConfig()
