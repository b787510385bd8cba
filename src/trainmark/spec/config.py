"""RunChoices, what a user has chosen for a run, and RunConfig, the same with nothing left open: what its ranks read.

A section's …Choices has fields that may be open (None: the plan chooses); its …Config narrows just these. A RunConfig
can stand wherever choices are wanted, and mypy finds open choices where a RunConfig is needed. A None that RunConfig
still allows is a rule of its own, such as `epsilon`: that of the optimizer.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Setting = str | int | float | bool


def plain_value(value: Any) -> Any:
    """The value, if it is one that a part's setting can have; a union of types would list what each of them wants."""
    if not isinstance(value, Setting):
        raise ValueError("a text, a number, true or false is needed (several names are one text, with commas between)")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number is needed")
    return value


PlainSetting = Annotated[Setting, BeforeValidator(plain_value)]

Count = Annotated[int, Field(ge=1, le=1_000_000)]
ReaderCount = Annotated[int, Field(ge=0)]
Compiler = Literal["none", "inductor", "torchscript"]
MemoryFormat = Literal["channels-last", "contiguous", "onednn"]
OLD_ALLOCATORS = {"keep": "glibc-tuned"}  # name in earlier versions → name
Allocator = Annotated[
    Literal["glibc-tuned", "system", "tcmalloc", "jemalloc"],
    BeforeValidator(lambda name: OLD_ALLOCATORS.get(name, name) if isinstance(name, str) else name),
]


class Section(BaseModel):
    """A frozen group of settings; keys it does not know are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StrictSection(Section):
    """A section whose values are taken as they are: "3" is no number, and 1 is not true."""

    model_config = ConfigDict(strict=True)


class EnsembleChoices(StrictSection):
    """How many base models, trained by how many workers each (Eq. 5)."""

    members: Count | None = Field(None, description="base models in the ensemble (M)")
    workers: Count | None = Field(None, description="workers that train one member together (P)")
    system_scale: Count | None = Field(None, description="workers in all: members × workers (Eq. 5)")
    bootstrap: str = Field(
        "poisson", description="name from `trainmark list bootstraps`; how a member's training samples are drawn"
    )


class EnsembleConfig(EnsembleChoices):
    """Eq. 5 solved."""

    members: Count
    workers: Count
    system_scale: Count


class TorchChoices(StrictSection):
    """What only the torch engine has: its compilers, layouts, kernels and savings of memory."""

    compiler: Compiler | None = Field(None, description="what compiles the model; default: the device's")
    memory_format: MemoryFormat | None = Field(
        None, description="layout of images and convolution weights in memory; default: the model's fastest"
    )
    cuda_graph: bool | None = Field(None, description="replay the whole step as one graph; default: where it can be")
    fused_optimizer: bool = Field(True, description="one kernel updates all weights, where torch has one")
    recompute: bool = Field(False, description="forget activations and compute them again in the backward pass")
    offload: Literal["none", "host", "disk"] = Field("none", description="where activations wait for the backward pass")
    int8_scales: Literal["tensor", "channel"] = Field("channel", description="int8: values that share one scale")


class TorchConfig(TorchChoices):
    """Nothing open. The defaults are what versions did that had no such setting yet, so that their runs can be read."""

    compiler: Compiler = "none"
    memory_format: MemoryFormat = "contiguous"
    cuda_graph: bool = False


def with_torch_section(train: Any) -> Any:
    """Values of the train section; those that earlier versions kept there are moved to the section of torch."""
    section = train.get("torch", {}) if isinstance(train, dict) else None
    if not isinstance(section, dict):
        return train  # refused as what it is
    moved = {key: train[key] for key in TorchChoices.model_fields if key in train}
    for key, value in moved.items():
        if section.get(key, value) != value:
            raise ValueError(
                f"train.{key} is {value!r}, but train.torch.{key}, its name now, is {section[key]!r}; leave out one"
            )
    rest = {key: value for key, value in train.items() if key not in moved}
    return {**rest, "torch": {**moved, **section}} if moved else train


class TrainChoices(StrictSection):
    """The recipe: how each member is trained. What is open is chosen by the plan, as is fastest on the device."""

    engine: str = Field("torch", description="name from `trainmark list engines`; the framework that trains")
    epochs: int = Field(ge=1, description="passes over the member's bootstrap")
    batch_size: int = Field(ge=1, description="samples of one forward and backward pass of a worker")
    accumulation: int = Field(1, ge=1, description="passes whose gradients are summed into one step")
    augmentation: Literal["none", "flip-shift", "crop", "crop-colour"] = Field(
        "none", description="random change of each training image"
    )
    batch_norm: Literal["worker", "synchronised"] = Field(
        "worker", description="whose samples batch normalisation takes its statistics from"
    )

    optimizer: str = Field(description="name from `trainmark list optimizers`")
    learning_rate: float = Field(gt=0, description="rate at the reference batch size")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd and lars; beta1 of adam, adamw and lamb")
    momentum_correction: Literal["as-published", "on", "off"] = Field(
        "as-published", description="whether momentum keeps its meaning when the rate changes"
    )
    nesterov: bool = Field(False, description="sgd looks ahead along its momentum")
    beta2: float = Field(0.999, ge=0, lt=1, description="decay of the squared gradient of adam, adamw and lamb")
    epsilon: float | None = Field(None, ge=0, description="term that keeps divisions finite; default: the optimizer's")
    trust_coefficient: float = Field(0.001, gt=0, description="lars: share of a layer's norm that a step may move it")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty (sgd, adam, adagrad, lars) or decay (adamw, lamb)")

    schedule: str = Field(description="name from `trainmark list schedules`; what the rate does after warm-up")
    reference_batch_size: int = Field(
        ge=1, description="global batch for which learning_rate is meant; rate scaling starts here"
    )
    rate_scaling: Literal["linear", "square-root", "none"] = Field(
        "linear", description="how the rate grows with the global batch"
    )
    warmup: Literal["gradual", "constant"] = Field("gradual", description="how warm-up reaches the scaled rate")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of warm-up")
    decay_power: float = Field(1.0, ge=0, description="polynomial: power of the decay; 0 keeps the rate")
    decay_epochs: float = Field(30.0, gt=0, description="step: epochs between decays")
    decay_factor: float = Field(0.1, gt=0, le=1, description="step: what the rate is multiplied by")
    cycle_epochs: float = Field(2.0, gt=0, description="cyclic: epochs of one cycle, down and up")
    cycle_floor: float = Field(0.1, gt=0, le=1, description="cyclic: share of the peak at which the rate turns")
    collapse_epochs: float = Field(
        0.0, ge=0, description="final epochs without augmentation, with doubled weight decay and a decay of power 2"
    )

    precision: str | None = Field(None, description="name from `trainmark list precisions`; default: the device's")

    parallel: str = Field("data", description="name from `trainmark list parallel`")
    stages: int | None = Field(None, ge=1, description="workers that share one copy of the model's layers")
    micro_batches: int = Field(4, ge=1, description="parts of a batch that are in a pipeline at the same time")
    communication: str = Field("allreduce", description="name from `trainmark list communication`")
    communication_precision: str = Field("fp32", description="name from `trainmark list communication-precisions`")
    communication_group: int | None = Field(
        None, ge=1, description="workers of a group (hierarchical) or row (torus-2d); default: a node's, near a square"
    )
    averaging_steps: int = Field(8, ge=1, description="local-sgd: steps between averages")
    powersgd_rank: int = Field(2, ge=1, description="powersgd: rank of the matrices that are sent")

    torch: TorchChoices = TorchChoices()

    @model_validator(mode="before")
    @classmethod
    def _understand_old_names(cls, values: Any) -> Any:
        return with_torch_section(values)


class TrainConfig(TrainChoices):
    """Nothing open; defaults as those of TorchConfig."""

    precision: str = "fp32"
    torch: TorchConfig = TorchConfig()


class EvaluateConfig(StrictSection):
    """How quality is measured and what it is measured against."""

    target_quality: float = Field(ge=0.001, description="quality that VFLOPS is weighed against (Eq. 8)")
    exponent: float = Field(ge=0, le=100, description="n of Eq. 8, the sensitivity of VFLOPS to quality")
    every_epochs: int = Field(1, ge=1, description="epochs between evaluations; the last epoch is always evaluated")
    batch_size: int = Field(250, ge=1, description="samples per evaluation step")
    out_of_bag: bool = Field(True, description="also predict the samples each member has not seen")


class LaunchChoices(StrictSection):
    """How the members' jobs are started."""

    launcher: str = Field("local", description="name from `trainmark list launchers`")
    threads: int | None = Field(None, ge=1, description="threads per worker; default: one per core that it has")
    thread_binding: Literal["none", "close", "spread"] = Field(
        "none", description="how OpenMP places a worker's threads on its cores"
    )
    allocator: Allocator | None = Field(
        None, description="glibc-tuned: keeps freed memory (fewer page faults); system: as it is; default: the fastest"
    )
    loader_workers: ReaderCount | None = Field(
        None, description="processes per worker that read ahead; 0: it reads itself; default: by its cores"
    )
    stage: Literal["none", "local"] = Field(
        "none", description="local: copy a member's samples to its nodes' own storage before training"
    )
    checkpoint_epochs: int = Field(1, ge=0, description="epochs between checkpoints; 0 writes none")
    checkpoint_steps: int = Field(0, ge=0, description="steps between checkpoints within an epoch; 0 writes none")
    keep_checkpoints: int = Field(
        2,
        ge=1,
        description="whole checkpoints of an attempt that are kept; the one before a damaged one is resumed from",
    )
    attempts: int = Field(1, ge=1, description="tries at a member within one run or resume; each is one attempt")
    allocation: Literal["per-member", "one"] = Field(
        "per-member", description="slurm: a job for each member, or one allocation in which all of them run"
    )
    time_limit_minutes: int | None = Field(
        None, ge=1, description="slurm: limit of each job; default: the site's, else the partition's"
    )

    @property
    def jobs_outlive_launcher(self) -> bool:
        """Whether members go on when the process that started them ends: then its end says nothing about them."""
        return self.launcher == "slurm"

    @property
    def shares_idle_cores(self) -> bool:
        """Whether workers may get the cores of slots that would stay idle; a job of Slurm asks for those of its own."""
        return self.launcher != "slurm"


class LaunchConfig(LaunchChoices):
    """Nothing open; defaults as those of TorchConfig."""

    allocator: Allocator = "glibc-tuned"
    loader_workers: ReaderCount = 0


class MeasureConfig(StrictSection):
    """What is measured beside the training itself."""

    ceiling: bool = Field(True, description="measure what the cores can do, before and after training")
    ceiling_seconds: float = Field(0.3, gt=0, description="time given to each ceiling kernel")
    usage_seconds: float = Field(1.0, ge=0, description="time between samples of each node's utilisation; 0: none")


class RunChoices(StrictSection):
    """All choices of one run, merged from recipe, files and flags."""

    workload: str = Field(description="name from `trainmark list workloads`")
    size: str = Field(description="size of the workload: tiny, full or another that it has")
    seed: int = Field(1, ge=0, description="seed of bootstrap, initial weights and shuffling")
    ensemble: EnsembleChoices = EnsembleChoices()
    model: str = Field(description="name from `trainmark list models`")
    model_settings: dict[str, PlainSetting] = Field(
        default_factory=dict, description="arguments of the model's builder"
    )
    dataset: str = Field(description="name from `trainmark list datasets`")
    data: dict[str, PlainSetting] = Field(default_factory=dict, description="settings of the dataset")
    quality: str = Field(description="name from `trainmark list qualities`")
    train: TrainChoices
    evaluate: EvaluateConfig
    launch: LaunchChoices = LaunchChoices()
    measure: MeasureConfig = MeasureConfig()


class RunConfig(RunChoices):
    """Nothing open: what the ranks of a run read, stored with its Result and enough to repeat it."""

    ensemble: EnsembleConfig
    train: TrainConfig
    launch: LaunchConfig = LaunchConfig()
