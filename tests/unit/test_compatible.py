"""Choices that cannot go together are refused by the plan, with the reason and the nearest valid choice."""

import importlib
import re
import sys
from dataclasses import replace

import pytest

from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.slurm_site import SlurmSite
from trainmark.workloads.models import RESNET_TINY

CPUS = Site(name="cpus", groups=(NodeGroup(slots=tuple(Slot(cores=(i,)) for i in range(8))),))
GPUS = Site(name="gpus", groups=(NodeGroup(slots=tuple(Slot(cores=(i,), accelerator=i) for i in range(8))),))


def planned(site: Site, workers: int, *settings: str) -> RunConfig:
    texts = ("ensemble.members=1", f"ensemble.workers={workers}", *settings)
    return make_plan(resolve_config([parse_setting(text) for text in texts]), site)[0]


OVER_MPI = "train.communication=mpi launch.launcher=mpi"
REFUSED_ON_CPUS = [
    (2, "train.precision=int8 train.parallel=sharded", "int8 training", "train.parallel=data"),
    (5, "train.communication=torus-2d", "5 is prime", "--workers 6"),
    (3, "train.communication=torus-2d", "3 is prime", "--workers 4"),
    (2, "train.communication=torus-2d", "2 is prime", "--workers 4"),
    (1, "train.communication=torus-2d", "at least 4 workers", "--workers 4"),
    (6, "train.communication=torus-2d train.communication_group=4", "rows of 4", "communication_group=3"),
    (6, "train.communication=hierarchical train.communication_group=4", "groups of 4", "communication_group=3"),
    (2, "train.communication=ring train.communication_group=2", "has no groups", "communication=hierarchical"),
    (8, "train.parallel=gpipe", "has 5 layers with weights, too few for 8 stages", "train.stages=4"),
    (4, "train.parallel=1f1b train.micro_batches=2", "2 are fewer than 4 stages", "train.micro_batches=4"),
    (4, "train.parallel=1f1b train.stages=3", "4 / 3 is not an integer", "train.stages=2"),
    (5, "train.parallel=gpipe train.stages=1", "splits nothing", "train.stages=5"),
    (7, "train.parallel=gpipe train.stages=2", "7 / 2 is not an integer", "--workers 6"),
    (5, "train.parallel=1f1b train.batch_size=8", "4 are fewer than 5 stages", "micro_batches=8"),
    (4, "train.parallel=1f1b train.batch_size=30", "4 equal micro-batches", "micro_batches=5"),
    (2, "train.stages=2", "does not. Choose", "train.parallel=gpipe"),
    (2, "train.parallel=gpipe train.batch_size=30", "4 equal micro-batches", "micro_batches=3"),
    (2, "train.parallel=gpipe train.communication=ring", "applies to data parallelism", "communication=allreduce"),
    (2, "train.parallel=model train.communication_precision=int8", "data parallelism", "communication_precision=fp32"),
    (2, "train.parallel=sharded train.precision=fp16", "one dtype", "precision=fp16-mixed"),
    (2, "train.communication=parameter-server train.precision=fp16", "parameter server", "precision=bf16-mixed"),
    (2, "train.communication_precision=powersgd train.precision=fp16-mixed", "overflows", "precision=bf16-mixed"),
    (2, "train.communication=ring train.communication_precision=powersgd", "its own all-reduce", "=allreduce"),
    (2, "train.communication=mpi", "the launcher 'local' starts them itself", "--launcher mpi"),
    (2, "train.communication=mpi launch.launcher=slurm", "srun starts them without", 'slurm.mpi = "pmix"'),
    (2, f"{OVER_MPI} train.communication_precision=fp16", "MPI reduces gradients in fp32", "precision=fp32"),
    (2, f"{OVER_MPI} train.communication_precision=powersgd", "MPI reduces gradients in fp32", "precision=fp32"),
    (2, f"{OVER_MPI} train.parallel=sharded", "applies to data parallelism", "communication=allreduce"),
    (1, OVER_MPI, "at least 2 workers", "--workers 2"),
    (1, "train.communication=ring", "at least 2 workers", "--workers 2"),
    (1, "train.parallel=sharded", "at least 2 workers", "train.parallel=data"),
    (1, "train.communication_precision=int8", "at least 2 workers", "communication_precision=fp32"),
    (1, "train.batch_norm=synchronised", "at least 2 workers", "batch_norm=worker"),
    (
        1,
        "dataset=synthetic model=vit-small train.batch_norm_momentum=0.01",
        "vit-small has no batch normalisation, but train.batch_norm_momentum is 0.01",
        "Remove it, or choose another model",
    ),
    (1, "train.precision=tf32", "tf32 needs GPUs", "precision=fp32"),
    (1, "train.precision=fp16 train.optimizer=adam", "underflow in pure fp16", "precision=fp16-mixed"),
    (1, "train.nesterov=true train.momentum=0.0", "sgd with momentum", "nesterov=false"),
    (1, "train.nesterov=true train.optimizer=adam", "sgd with momentum", "nesterov=false"),
    (1, "train.torch.offload=host", "are in host memory already", "offload=disk"),
    (2, "train.torch.offload=disk train.parallel=gpipe", "one pass at a time", "offload=none"),
    (1, "train.torch.cuda_graph=true", "need a GPU", "Do not set train.torch.cuda_graph"),
    (1, "train.torch.memory_format=onednn train.precision=bf16-mixed", "oneDNN", "channels-last"),
    (1, "train.torch.memory_format=onednn train.torch.onednn=false", "layout needs oneDNN", "memory_format=contiguous"),
    (1, "train.precision=int8 train.torch.onednn=false", "int8 products on CPUs need oneDNN", "precision=fp32"),
    (1, "train.torch.memory_format=onednn train.torch.compiler=inductor", "oneDNN", "compiler=none"),
    (
        1,
        "model_settings.width=8 train.torch.memory_format=channels-last",
        "strided 1×1 convolution of 8 channels",
        "memory_format=contiguous",
    ),
    (2, "train.torch.compiler=inductor train.parallel=gpipe", "splits it", "compiler=none"),
    (1, "train.torch.compiler=torchscript train.precision=int8", "int8 products", "compiler=none"),
    (1, "train.torch.compiler=torchscript train.precision=fp16", "what fp16 does", "compiler=none"),
    (2, "train.torch.compiler=torchscript train.batch_norm=synchronised", "what synchronised does", "compiler=none"),
    (2, "train.communication=parameter-server train.momentum_correction=on", "as published", "=as-published"),
    (1, "train.steps=5 train.minutes=1", "train.steps=5 and train.minutes=1 both", "Remove one of them"),
    (2, "train.minutes=1 train.communication=parameter-server", "a common step", "communication=allreduce"),
    (1, "dataset=synthetic train.stop_at_target=true", "needs a quality", "stop_at_target=false"),
    (1, "train.stop_at_target=true evaluate.samples=0", "needs a quality", "Remove one of them"),
    (1, "launch.stage=local", "has no local_storage for node1", "launch.stage=none"),
    (
        1,
        "dataset=synthetic data.num_classes=100 model_settings.num_classes=10",
        "for 10 num_classes",
        "data.num_classes=10",
    ),
    (1, "dataset=synthetic data.channels=1", "for 3 channels", "data.channels=3"),
    (1, "model_settings.num_classes=7", "for 7 num_classes, but shapes has 10", "model_settings.num_classes=10"),
    (1, "model_settings.channels=1", "for 1 channels, but shapes has 3", "model_settings.channels=3"),
    (1, "dataset=imagenet model_settings.num_classes=7", "data.num_classes is 10", "data.num_classes=7"),
    (1, "dataset=imagenet data.image_size=32 model=alexnet", "those of imagenet are 32 × 32", "data.image_size=63"),
    (1, "dataset=synthetic data.height=16 model=densenet121", "at least 29 × 29", "data.height=29"),
    (1, "dataset=synthetic data.width=8 model=vit-small", "synthetic are 224 × 8", "data.width=16"),
    (1, "dataset=cifar10 model=alexnet", "at least 63 × 63, but those of cifar10 are 32 × 32", "another model"),
    (1, "workload=extreme-weather train.parallel=gpipe", "cannot be split by layers", "train.parallel=data"),
    (2, "workload=extreme-weather train.parallel=1f1b", "cannot be split by layers", "train.parallel=sharded"),
    (
        1,
        "dataset=synthetic train.augmentation=flip-shift",
        "does not support the augmentation flip-shift",
        "augmentation=none",
    ),
]


@pytest.mark.parametrize(("workers", "settings", "reason", "nearest"), REFUSED_ON_CPUS)
def test_an_invalid_combination_is_refused_with_the_nearest_valid_choice(
    workers: int, settings: str, reason: str, nearest: str
) -> None:
    with pytest.raises(PlanError) as refused:
        planned(CPUS, workers, *settings.split())
    message = str(refused.value)
    assert reason in message and nearest in message
    assert "\n" not in message and message.endswith(".")


@pytest.mark.parametrize(("workers", "settings", "reason", "nearest"), REFUSED_ON_CPUS)
def test_every_choice_that_a_refusal_offers_is_valid(workers: int, settings: str, reason: str, nearest: str) -> None:
    with pytest.raises(PlanError) as refused:
        planned(CPUS, workers, *settings.split())
    offered = re.findall(r"--(set|workers) ([\w.=-]*\w)", str(refused.value))
    for flag, value in offered:
        more = () if flag == "workers" else (value,)
        planned(CPUS, int(value) if flag == "workers" else workers, *settings.split(), *more)


@pytest.mark.parametrize(
    ("workers", "settings", "reason"),
    [
        (1, "train.torch.memory_format=onednn", "is for CPUs"),
        (1, "train.torch.onednn=false", "Do not set train.torch.onednn"),
        (2, "train.torch.cuda_graph=true", "2 workers exchange gradients"),
        (2, OVER_MPI, "but the site has accelerators"),
        (1, "train.torch.cuda_graph=true train.precision=fp16-mixed", "inspects the gradients"),
        (1, "train.torch.cuda_graph=true train.torch.offload=host", "leave the device"),
    ],
)
def test_what_a_gpu_cannot_do_is_refused(workers: int, settings: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        planned(GPUS, workers, *settings.split())


@pytest.mark.parametrize(
    ("workers", "settings"),
    [
        (6, "train.communication=torus-2d train.communication_group=2"),
        (8, "train.communication=hierarchical train.communication_precision=int8"),
        (4, "train.parallel=1f1b train.stages=2 train.precision=bf16-mixed"),
        (2, "train.parallel=sharded train.batch_norm=synchronised"),
        (2, "train.parallel=gpipe train.precision=fp16-mixed train.accumulation=2"),
        (1, "train.torch.memory_format=onednn"),
        (2, "train.communication=parameter-server train.communication_precision=int8"),
        (2, "train.communication=local-sgd train.communication_precision=bf16"),
        (1, "train.torch.offload=disk train.torch.recompute=true"),
        (2, OVER_MPI),
        (2, f"{OVER_MPI} train.precision=fp16-mixed train.accumulation=2"),
    ],
)
def test_a_valid_combination_is_planned(workers: int, settings: str) -> None:
    planned(CPUS, workers, *settings.split())


def test_gradients_go_over_mpi_in_slurms_jobs_where_the_site_names_a_way() -> None:
    by_slurm = ("train.communication=mpi", "launch.launcher=slurm")
    for slurm in (SlurmSite(mpi="pmix"), SlurmSite(starter="mpirun")):
        planned(CPUS.model_copy(update={"slurm": slurm}), 2, *by_slurm)


def test_a_missing_mpi4py_is_refused_with_how_to_install_it_unless_workers_have_a_python_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.path", [path for path in sys.path if "site-packages" not in path])
    importlib.invalidate_caches()
    with pytest.raises(PlanError, match=r"which is not installed\. Install it: pip install 'trainmark\[mpi\]'"):
        planned(CPUS, 2, *OVER_MPI.split())
    planned(CPUS.model_copy(update={"python": "/opt/python"}), 2, *OVER_MPI.split())


WHOLE = replace(RESNET_TINY, num_layers=None)


def test_a_model_whose_card_states_no_layers_is_not_split() -> None:
    with pytest.raises(PlanError, match=r"cannot be split by layers.*parallel=sharded"):
        planned(CPUS, 2, "train.parallel=gpipe", f"model={__name__}:WHOLE")


def test_both_sides_of_a_small_image_are_named() -> None:
    with pytest.raises(PlanError, match=r"Choose --set data\.height=32 --set data\.width=32, or another model"):
        planned(CPUS, 1, "dataset=synthetic", "data.height=8", "data.width=9", "model=vgg16")


def test_classes_that_only_the_files_tell_are_not_refused() -> None:
    planned(CPUS, 1, "dataset=imagenet", "data.path=/pictures", "model_settings.num_classes=7")


def test_a_cpus_defaults_are_fp32_without_compiling() -> None:
    train = planned(CPUS, 1).train
    assert (train.precision, train.torch.compiler, train.torch.cuda_graph) == ("fp32", "none", False)


def test_without_onednn_a_cpu_trains_in_nchw_and_in_channels_last_where_only_onednn_would_err() -> None:
    synthetic = ("dataset=synthetic", "train.torch.onednn=false")
    assert planned(CPUS, 1, *synthetic).train.torch.memory_format == "contiguous"
    narrow = ("model_settings.width=8", "train.torch.memory_format=channels-last")
    with pytest.raises(PlanError, match="oneDNN computes wrongly"):
        planned(CPUS, 1, *narrow)
    assert planned(CPUS, 1, *narrow, "train.torch.onednn=false").train.torch.memory_format == "channels-last"


def test_a_cpu_trains_in_onednns_layout_where_the_model_and_the_other_choices_allow() -> None:
    synthetic = ("model=resnet18", "dataset=synthetic")
    assert planned(CPUS, 1).train.torch.memory_format == "channels-last"
    assert planned(CPUS, 1, *synthetic).train.torch.memory_format == "onednn"
    assert planned(CPUS, 2, *synthetic, "train.parallel=gpipe").train.torch.memory_format == "channels-last"
    assert planned(CPUS, 1, *synthetic, "train.precision=bf16-mixed").train.torch.memory_format == "channels-last"
    assert planned(GPUS, 1, *synthetic).train.torch.memory_format == "channels-last"


@pytest.mark.parametrize(("width", "layout"), [(1, "contiguous"), (15, "contiguous"), (16, "channels-last")])
def test_a_cpu_does_not_train_narrow_strided_convolutions_in_channels_last(width: int, layout: str) -> None:
    narrow = f"model_settings.width={width}"
    assert planned(CPUS, 1, narrow).train.torch.memory_format == layout
    assert planned(CPUS, 1, "workload=extreme-weather", narrow).train.torch.memory_format == layout
    assert planned(GPUS, 1, narrow).train.torch.memory_format == "channels-last"


def test_the_allocator_is_tcmalloc_where_the_sites_nodes_have_it() -> None:
    assert planned(CPUS, 1).launch.allocator == "glibc-tuned"
    with_it = CPUS.model_copy(update={"allocators": ("tcmalloc", "jemalloc")})
    assert planned(with_it, 1).launch.allocator == "tcmalloc"
    assert planned(GPUS.model_copy(update={"allocators": ("tcmalloc",)}), 1).launch.allocator == "glibc-tuned"
    assert planned(with_it, 1, "launch.allocator=system").launch.allocator == "system"


def test_a_gpus_defaults_are_bf16_compiled_and_captured() -> None:
    train = planned(GPUS, 1, "model=resnet50-v1.5", "dataset=synthetic").train
    assert (train.precision, train.torch.compiler, train.torch.cuda_graph) == ("bf16-mixed", "inductor", True)


def test_the_tiny_model_is_not_compiled_since_that_takes_longer_than_its_training() -> None:
    train = planned(GPUS, 1).train
    assert (train.torch.compiler, train.torch.cuda_graph) == ("none", True)


def test_a_gpu_without_bf16_gets_scaled_fp16_and_so_no_graph() -> None:
    old = Site(name="old", groups=(NodeGroup(slots=(Slot(cores=(0,), accelerator=0),), bf16=False),))
    train = planned(old, 1).train
    assert (train.precision, train.torch.cuda_graph) == ("fp16-mixed", False)


def test_several_workers_on_gpus_take_their_steps_without_a_graph() -> None:
    assert planned(GPUS, 2).train.torch.cuda_graph is False


def test_staging_needs_local_storage_on_the_nodes_that_the_plan_uses_alone() -> None:
    with_disk, without = (
        NodeGroup(prefix=prefix, slots=(Slot(cores=(0,)),), local_storage=storage)
        for prefix, storage in (("disk", "$TMPDIR"), ("diskless", None))
    )
    both = Site(name="both", groups=(with_disk, without))
    assert planned(both, 1, "launch.stage=local").launch.stage == "local"
    with pytest.raises(PlanError, match=r"has no local_storage for diskless1.*--draft-site"):
        planned(both, 1, "launch.stage=local", "ensemble.members=2")
