"""RunChoices, what the user chose, and RunConfig, the same fully resolved: what the ranks read.

Fields of a …Choices section may be unset (None: the plan chooses); its …Config narrows just these. A RunConfig is
accepted wherever RunChoices are, and mypy rejects the reverse. A None that RunConfig still allows has a meaning of its
own, such as `epsilon`: the optimizer's default.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from trainmark.spec.listed_epochs import ListedEpochs
from trainmark.spec.script_text import Interpreter

Setting = str | int | float | bool


def plain_value(value: Any) -> Any:
    """Returns the value if it is a plain setting; a union of types would report an error per type."""
    if not isinstance(value, Setting):
        raise ValueError("must be a string, a number, true or false (several names: one comma-separated string)")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


PlainSetting = Annotated[Setting, BeforeValidator(plain_value)]

Count = Annotated[int, Field(ge=1, le=1_000_000)]
ReaderCount = Annotated[int, Field(ge=0)]
Compiler = Literal["none", "inductor", "torchscript"]
MemoryFormat = Literal["channels-last", "contiguous", "onednn"]
OLD_ALLOCATORS = {"keep": "glibc-tuned"}  # name in earlier versions → name
Allocator = Annotated[
    Literal["glibc-tuned", "glibc-mmap", "system", "tcmalloc", "jemalloc"],
    BeforeValidator(lambda name: OLD_ALLOCATORS.get(name, name) if isinstance(name, str) else name),
]


class Section(BaseModel):
    """A frozen group of settings; unknown keys are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StrictSection(Section):
    """A section without type coercion: "3" is not a number, and 1 is not true."""

    model_config = ConfigDict(strict=True)


class EnsembleChoices(StrictSection):
    """Number of base models and of workers per base model (Eq. 5)."""

    members: Count | None = Field(None, description="base models in the ensemble (M)")
    workers: Count | None = Field(None, description="workers per member (P)")
    system_scale: Count | None = Field(None, description="total workers: members × workers (Eq. 5)")
    bootstrap: str = Field(
        "poisson", description="name from `trainmark list bootstraps`; how a member's training samples are drawn"
    )


class EnsembleConfig(EnsembleChoices):
    """Eq. 5 solved."""

    members: Count
    workers: Count
    system_scale: Count


class TorchChoices(StrictSection):
    """Settings of the torch engine: compiler, memory layout, kernels, activation memory."""

    compiler: Compiler | None = Field(None, description="compiler of the model; default: depends on the device")
    memory_format: MemoryFormat | None = Field(
        None, description="layout of images and convolution weights in memory; default: the model's fastest"
    )
    onednn: bool = Field(True, description="CPU: use kernels of oneDNN, the vendor library; false: torch's native ones")
    cuda_graph: bool | None = Field(None, description="replay the whole step as one graph; default: where supported")
    fused_optimizer: bool = Field(True, description="one kernel updates all weights, where torch has one")
    recompute: bool = Field(False, description="activation checkpointing: recompute activations in the backward pass")
    offload: Literal["none", "host", "disk"] = Field("none", description="where activations are kept until backward")
    int8_scales: Literal["tensor", "channel"] = Field("channel", description="int8: granularity of the scales")


class TorchConfig(TorchChoices):
    """Fully resolved; defaults are the behaviour of versions without the setting, so that their runs stay readable."""

    compiler: Compiler = "none"
    memory_format: MemoryFormat = "contiguous"
    cuda_graph: bool = False


def with_torch_section(train: Any) -> Any:
    """Returns the train section with torch settings of earlier versions moved to `train.torch`."""
    section = train.get("torch", {}) if isinstance(train, dict) else None
    if not isinstance(section, dict):
        return train  # validation rejects it
    moved = {key: train[key] for key in TorchChoices.model_fields if key in train}
    for key, value in moved.items():
        if section.get(key, value) != value:
            raise ValueError(
                f"train.{key} is {value!r}, but train.torch.{key}, its name now, is {section[key]!r}; leave out one"
            )
    rest = {key: value for key, value in train.items() if key not in moved}
    return {**rest, "torch": {**moved, **section}} if moved else train


class TrainChoices(StrictSection):
    """The recipe: how each member is trained; the plan sets what is unset to the fastest choice on the device."""

    engine: str = Field("torch", description="name from `trainmark list engines`; the framework that trains")
    epochs: int = Field(ge=1, description="passes over the member's bootstrap sample")
    steps: int | None = Field(None, ge=1, description="train this many steps, whatever `epochs` says")
    minutes: float | None = Field(
        None, gt=0, description="train for this time, whatever `epochs` says; without evaluations and checkpoints"
    )
    stop_at_target: bool = Field(False, description="end at the first evaluation that reaches evaluate.target_quality")
    batch_size: int = Field(ge=1, description="samples per forward and backward pass of a worker")
    accumulation: int = Field(1, ge=1, description="gradient accumulation: passes per optimizer step")
    batching: str = Field("random", description="name from `trainmark list batchings`: which unlike images are batched")
    batching_window: int = Field(1024, ge=1, description="samples among which those of a batch are chosen by shape")
    batch_pixels: int | None = Field(None, ge=1, description="pixels: limit of a pass; default: batch_size mean images")
    mask_padding: bool = Field(False, description="keep padding out of convolutions, batch statistics and pooling")
    augmentation: Literal["none", "flip-shift", "crop", "crop-colour"] = Field(
        "none", description="random augmentation of training images"
    )
    batch_norm: Literal["worker", "synchronised"] = Field(
        "worker", description="scope of the batch normalisation statistics"
    )
    batch_norm_momentum: float | None = Field(
        None, gt=0, le=1, description="weight of a batch in the running statistics; default: the model's"
    )

    optimizer: str = Field(description="name from `trainmark list optimizers`")
    learning_rate: float = Field(gt=0, description="rate at the reference batch size")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of sgd and lars; beta1 of adam, adamw and lamb")
    momentum_correction: Literal["as-published", "on", "off"] = Field(
        "as-published", description="rescale momentum when the learning rate changes"
    )
    nesterov: bool = Field(False, description="Nesterov momentum for sgd")
    beta2: float = Field(0.999, ge=0, lt=1, description="decay of the second moment of adam, adamw and lamb")
    epsilon: float | None = Field(None, ge=0, description="added to denominators; default: the optimizer's")
    trust_coefficient: float = Field(0.001, gt=0, description="lars: trust coefficient η")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty (sgd, adam, adagrad, lars) or decay (adamw, lamb)")

    schedule: str = Field(description="name from `trainmark list schedules`; learning rate after warm-up")
    reference_batch_size: int = Field(ge=1, description="global batch that learning_rate is for; scaling starts here")
    rate_scaling: Literal["linear", "square-root", "none"] = Field(
        "linear", description="how the rate grows with the global batch"
    )
    warmup: Literal["gradual", "constant"] = Field("gradual", description="shape of the warm-up to the scaled rate")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of warm-up")
    decay_power: float = Field(1.0, ge=0, description="polynomial: power of the decay; 0 keeps the rate constant")
    decay_epochs: float = Field(30.0, gt=0, description="step: epochs between decays")
    decay_at: ListedEpochs | None = Field(None, description="step: epochs of the decays, instead of decay_epochs")
    decay_factor: float = Field(0.1, gt=0, le=1, description="step: factor applied at each decay")
    cycle_epochs: float = Field(2.0, gt=0, description="cyclic: epochs per cycle, down and up")
    cycle_floor: float = Field(0.1, gt=0, le=1, description="cyclic: minimum rate as a fraction of the peak")
    collapse_epochs: float = Field(
        0.0, ge=0, description="final epochs without augmentation, with doubled weight decay and a decay of power 2"
    )

    precision: str | None = Field(
        None, description="name from `trainmark list precisions`; default: depends on the device"
    )

    parallel: str = Field("data", description="name from `trainmark list parallel`")
    stages: int | None = Field(None, ge=1, description="pipeline stages per replica of the model")
    micro_batches: int = Field(4, ge=1, description="micro-batches per batch in a pipeline")
    communication: str = Field("allreduce", description="name from `trainmark list communication`")
    communication_precision: str = Field("fp32", description="name from `trainmark list communication-precisions`")
    communication_group: int | None = Field(
        None, ge=1, description="workers per group (hierarchical) or row (torus-2d); default: a node's, near a square"
    )
    averaging_steps: int = Field(8, ge=1, description="local-sgd: steps between weight averaging")
    powersgd_rank: int = Field(2, ge=1, description="powersgd: rank of the approximation")

    torch: TorchChoices = TorchChoices()

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, values: Any) -> Any:
        return with_torch_section(values)


class TrainConfig(TrainChoices):
    """Fully resolved; defaults as in TorchConfig."""

    precision: str = "fp32"
    torch: TorchConfig = TorchConfig()


class EvaluateConfig(StrictSection):
    """How quality is evaluated, and its target."""

    target_quality: float = Field(ge=0.001, description="target quality of VFLOPS (Eq. 8)")
    exponent: float = Field(ge=0, le=100, description="n of Eq. 8, the sensitivity of VFLOPS to quality")
    every_epochs: int = Field(1, ge=1, description="epochs between evaluations; the last epoch is always evaluated")
    batch_size: int = Field(250, ge=1, description="samples per evaluation step")
    samples: int | None = Field(None, ge=0, description="held-out samples to predict; 0: no evaluation; default: all")
    out_of_bag: bool = Field(True, description="also predict each member's out-of-bag samples")


class LaunchChoices(StrictSection):
    """How the members' jobs are started."""

    launcher: str = Field("local", description="name from `trainmark list launchers`")
    python: Interpreter | None = Field(
        None, description="Python of the workers, of any environment; default: the site's, else the one that launches"
    )
    threads: int | None = Field(None, ge=1, description="threads per worker; default: one per core")
    interop_threads: int | None = Field(
        None, ge=1, description="inter-op threads per worker, which run independent operators; default: the engine's"
    )
    thread_binding: Literal["none", "close", "spread"] = Field(
        "none", description="how OpenMP places a worker's threads on its cores"
    )
    allocator: Allocator | None = Field(None, description="glibc-tuned keeps freed memory, glibc-mmap returns it")
    loader_workers: ReaderCount | None = Field(
        None, description="data loader processes per worker; 0: load in the worker; default: depends on its cores"
    )
    memory_gib: float | None = Field(None, gt=0, description="GiB that a worker may take, enforced; default: all")
    stage: Literal["none", "local"] = Field(
        "none", description="local: copy a member's samples to node-local storage before training"
    )
    checkpoint_epochs: int = Field(1, ge=0, description="epochs between checkpoints; 0 writes none")
    checkpoint_steps: int = Field(0, ge=0, description="steps between checkpoints within an epoch; 0 writes none")
    keep_checkpoints: int = Field(
        2,
        ge=1,
        description="complete checkpoints kept per attempt; if the newest is damaged, resume uses the one before",
    )
    attempts: int = Field(1, ge=1, description="attempts per member within one run or resume")
    allocation: Literal["per-member", "one"] = Field(
        "per-member", description="slurm: one job per member, or one allocation for all members"
    )
    time_limit_minutes: int | None = Field(
        None, ge=1, description="slurm: time limit per job; default: the site's, else the partition's"
    )

    @property
    def jobs_outlive_launcher(self) -> bool:
        """Whether members keep running after the process that started them has ended."""
        return self.launcher == "slurm"

    @property
    def shares_idle_cores(self) -> bool:
        """Whether workers may use the cores of idle slots; a Slurm job only requests those of its own slots."""
        return self.launcher != "slurm"


class LaunchConfig(LaunchChoices):
    """Fully resolved; defaults as in TorchConfig."""

    allocator: Allocator = "glibc-tuned"
    loader_workers: ReaderCount = 0


class MeasureConfig(StrictSection):
    """What is measured in addition to training."""

    ceiling: bool = Field(True, description="measure peak kernel throughput before and after training")
    ceiling_seconds: float = Field(0.3, gt=0, description="time per ceiling kernel")
    inference: bool = Field(False, description="measure forward passes of the trained model, after training")
    inference_seconds: float = Field(2.0, gt=0, description="time of the forward passes per batch size")
    inference_batch_size: int | None = Field(
        None, ge=1, description="samples per forward pass; single samples are always measured; default: as in training"
    )
    step_memory: bool = Field(False, description="record the peak memory of every step: about 0.1 ms per step")
    usage_seconds: float = Field(1.0, ge=0, description="sampling interval of node utilisation; 0: off")


class RunChoices(StrictSection):
    """All choices of a run, merged from recipe, files and flags."""

    workload: str = Field(description="name from `trainmark list workloads`")
    size: str = Field(description="size of the workload: tiny, full or another that it defines")
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
    """Fully resolved: what the ranks read; stored with the Result and sufficient to repeat the run."""

    ensemble: EnsembleConfig
    train: TrainConfig
    launch: LaunchConfig = LaunchConfig()
