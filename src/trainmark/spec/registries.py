"""Every part that a run can name, kind by kind: a line here makes it known, listed and conformance-tested."""

from trainmark.spec.registry import Registry

WORKLOADS = Registry(
    "workload",
    {"image-classification": "trainmark.workloads.image_classification:WORKLOAD"},
    group="trainmark.workloads",
)

MODELS = Registry(
    "model",
    {
        "resnet-tiny": "trainmark.workloads.models.resnet_tiny:build",
        "resnet50-v1": "trainmark.workloads.models.resnet50:build_v1",
        "resnet50-v1.5": "trainmark.workloads.models.resnet50:build_v1_5",
    },
    group="trainmark.models",
)

DATASETS = Registry(
    "dataset",
    {"shapes": "trainmark.data.datasets.shapes:Shapes"},
    group="trainmark.datasets",
)

TASKS = Registry(
    "task",
    {"classification": "trainmark.workloads.tasks.classification:Classification"},
    group="trainmark.tasks",
)

QUALITIES = Registry(
    "quality",
    {"top1": "trainmark.workloads.quality.top1:Top1"},
    group="trainmark.qualities",
)

OPTIMIZERS = Registry(
    "optimizer",
    {"sgd": "trainmark.train.optimizers.sgd:build"},
    group="trainmark.optimizers",
)

SCHEDULES = Registry(
    "schedule",
    {"warmup-linear-scaling": "trainmark.train.schedules.warmup_linear_scaling:learning_rate"},
    group="trainmark.schedules",
)

LAUNCHERS = Registry(
    "launcher",
    {"local": "trainmark.launch.local:LocalLauncher"},
    group="trainmark.launchers",
)

METRICS = Registry(
    "metric",
    {
        "throughput_samples_per_s": "trainmark.collect.metrics.throughput_samples_per_s:compute",
        "step_time_s": "trainmark.collect.metrics.step_time_s:compute",
        "epoch_time_s": "trainmark.collect.metrics.epoch_time_s:compute",
        "flops": "trainmark.collect.metrics.flops:compute",
        "ceiling_flops": "trainmark.collect.metrics.ceiling_flops:compute",
        "flops_share_of_ceiling": "trainmark.collect.metrics.flops_share_of_ceiling:compute",
        "quality_ensemble": "trainmark.collect.metrics.quality_ensemble:compute",
        "quality_member_mean": "trainmark.collect.metrics.quality_member_mean:compute",
        "quality_member_best": "trainmark.collect.metrics.quality_member_best:compute",
        "quality_out_of_bag": "trainmark.collect.metrics.quality_out_of_bag:compute",
        "vflops": "trainmark.collect.metrics.vflops:compute",
        "time_to_train_all_s": "trainmark.collect.metrics.time_to_train_all_s:compute",
        "models_per_minute": "trainmark.collect.metrics.models_per_minute:compute",
        "peak_memory_bytes": "trainmark.collect.metrics.peak_memory_bytes:compute",
        "data_wait_share": "trainmark.collect.metrics.data_wait_share:compute",
        "harness_overhead_share": "trainmark.collect.metrics.harness_overhead_share:compute",
    },
    group="trainmark.metrics",
)

KINDS = {
    "workloads": WORKLOADS,
    "models": MODELS,
    "datasets": DATASETS,
    "tasks": TASKS,
    "qualities": QUALITIES,
    "optimizers": OPTIMIZERS,
    "schedules": SCHEDULES,
    "launchers": LAUNCHERS,
    "metrics": METRICS,
}
