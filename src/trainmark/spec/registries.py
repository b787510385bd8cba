"""Every part that a run can name, kind by kind: a line here makes it known, listed and conformance-tested."""

from trainmark.spec.registry import Registry

WORKLOADS = Registry(
    "workload",
    {
        "image-classification": "trainmark.workloads.image_classification:WORKLOAD",
        "extreme-weather": "trainmark.workloads.extreme_weather:WORKLOAD",
    },
    group="trainmark.workloads",
)

MODELS = Registry(
    "model",
    {
        "resnet-tiny": "trainmark.workloads.models.resnet_tiny:build",
        "resnet18": "trainmark.workloads.models.resnet18:build",
        "resnet34": "trainmark.workloads.models.resnet34:build",
        "resnet50-v1": "trainmark.workloads.models.resnet50:build_v1",
        "resnet50-v1.5": "trainmark.workloads.models.resnet50:build_v1_5",
        "resnet101-v1": "trainmark.workloads.models.resnet101:build_v1",
        "resnet101-v1.5": "trainmark.workloads.models.resnet101:build_v1_5",
        "resnext50-32x4d": "trainmark.workloads.models.resnext50_32x4d:build",
        "wide-resnet50-2": "trainmark.workloads.models.wide_resnet50_2:build",
        "wide-resnet101-2": "trainmark.workloads.models.wide_resnet101_2:build",
        "alexnet": "trainmark.workloads.models.alexnet:build",
        "vgg16": "trainmark.workloads.models.vgg16:build",
        "densenet121": "trainmark.workloads.models.densenet121:build",
        "vit-small": "trainmark.workloads.models.vit_small:build",
        "faster-rcnn": "trainmark.workloads.models.faster_rcnn:build",
    },
    group="trainmark.models",
)

DATASETS = Registry(
    "dataset",
    {
        "cifar10": "trainmark.data.datasets.cifar10:Cifar10",
        "extreme-weather": "trainmark.data.datasets.extreme_weather:ExtremeWeather",
        "imagenet": "trainmark.data.datasets.imagenet:Imagenet",
        "pacs": "trainmark.data.datasets.pacs:Pacs",
        "shapes": "trainmark.data.datasets.shapes:Shapes",
        "synthetic": "trainmark.data.datasets.synthetic:Synthetic",
    },
    group="trainmark.datasets",
)

TASKS = Registry(
    "task",
    {
        "classification": "trainmark.workloads.tasks.classification:Classification",
        "detection": "trainmark.workloads.tasks.detection:Detection",
    },
    group="trainmark.tasks",
)

QUALITIES = Registry(
    "quality",
    {
        "map50": "trainmark.workloads.quality.map50:Map50",
        "map50-nms": "trainmark.workloads.quality.map50_nms:Map50Nms",
        "top1": "trainmark.workloads.quality.top1:Top1",
    },
    group="trainmark.qualities",
)

OPTIMIZERS = Registry(
    "optimizer",
    {
        "sgd": "trainmark.train.optimizers.sgd:build",
        "adam": "trainmark.train.optimizers.adam:build",
        "adamw": "trainmark.train.optimizers.adamw:build",
        "adagrad": "trainmark.train.optimizers.adagrad:build",
        "lars": "trainmark.train.optimizers.lars:build",
        "lamb": "trainmark.train.optimizers.lamb:build",
    },
    group="trainmark.optimizers",
)

SCHEDULES = Registry(
    "schedule",
    {
        "constant": "trainmark.train.schedules.constant:share_of_peak",
        "step": "trainmark.train.schedules.step:share_of_peak",
        "polynomial": "trainmark.train.schedules.polynomial:share_of_peak",
        "cosine": "trainmark.train.schedules.cosine:share_of_peak",
        "cyclic": "trainmark.train.schedules.cyclic:share_of_peak",
    },
    group="trainmark.schedules",
)

PRECISIONS = Registry(
    "precision",
    {
        "fp32": "trainmark.train.precision.fp32:build",
        "tf32": "trainmark.train.precision.tf32:build",
        "bf16-mixed": "trainmark.train.precision.bf16_mixed:build",
        "fp16-mixed": "trainmark.train.precision.fp16_mixed:build",
        "fp16": "trainmark.train.precision.fp16:build",
        "int8": "trainmark.train.precision.int8:build",
    },
    group="trainmark.precisions",
)

COMMUNICATION = Registry(
    "communication mode",
    {
        "allreduce": "trainmark.train.communication.allreduce:build",
        "ring": "trainmark.train.communication.ring:build",
        "hierarchical": "trainmark.train.communication.hierarchical:build",
        "torus-2d": "trainmark.train.communication.torus_2d:build",
        "mpi": "trainmark.train.communication.mpi:build",
        "parameter-server": "trainmark.train.communication.parameter_server:build",
        "local-sgd": "trainmark.train.communication.local_sgd:build",
    },
    group="trainmark.communication",
)

COMMUNICATION_PRECISIONS = Registry(
    "communication precision",
    {
        "fp32": "trainmark.train.communication.fp32:build",
        "fp16": "trainmark.train.communication.fp16:build",
        "bf16": "trainmark.train.communication.bf16:build",
        "int8": "trainmark.train.communication.int8:Int8",
        "powersgd": "trainmark.train.communication.powersgd:PowerSgd",
    },
    group="trainmark.communication_precisions",
)

PARALLEL = Registry(
    "parallel mode",
    {
        "data": "trainmark.train.parallel.data:build",
        "sharded": "trainmark.train.parallel.sharded:build",
        "model": "trainmark.train.parallel.model:build",
        "gpipe": "trainmark.train.parallel.gpipe:build",
        "1f1b": "trainmark.train.parallel.one_f_one_b:build",
    },
    group="trainmark.parallel",
)

LAUNCHERS = Registry(
    "launcher",
    {
        "local": "trainmark.launch.local:launcher",
        "mpi": "trainmark.launch.mpi:launcher",
        "slurm": "trainmark.launch.slurm.launcher:SlurmLauncher",
    },
    group="trainmark.launchers",
)

METRICS = Registry(
    "metric",
    {
        "throughput_samples_per_s": "trainmark.collect.metrics.throughput_samples_per_s:compute",
        "step_time_s": "trainmark.collect.metrics.step_time_s:compute",
        "epoch_time_s": "trainmark.collect.metrics.epoch_time_s:compute",
        "flops": "trainmark.collect.metrics.flops:compute",
        "flops_steady": "trainmark.collect.metrics.flops_steady:compute",
        "ceiling_flops": "trainmark.collect.metrics.ceiling_flops:compute",
        "flops_share_of_ceiling": "trainmark.collect.metrics.flops_share_of_ceiling:compute",
        "quality_ensemble": "trainmark.collect.metrics.quality_ensemble:compute",
        "quality_member_mean": "trainmark.collect.metrics.quality_member_mean:compute",
        "quality_member_best": "trainmark.collect.metrics.quality_member_best:compute",
        "quality_out_of_bag": "trainmark.collect.metrics.quality_out_of_bag:compute",
        "vflops": "trainmark.collect.metrics.vflops:compute",
        "time_to_train_all_s": "trainmark.collect.metrics.time_to_train_all_s:compute",
        "staging_time_s": "trainmark.collect.metrics.staging_time_s:compute",
        "models_per_minute": "trainmark.collect.metrics.models_per_minute:compute",
        "peak_memory_bytes": "trainmark.collect.metrics.peak_memory_bytes:compute",
        "communication_share": "trainmark.collect.metrics.communication_share:compute",
        "communication_bytes_per_step": "trainmark.collect.metrics.communication_bytes_per_step:compute",
        "communication_intra_node_bytes_per_s": "trainmark.collect.metrics.communication_bandwidth:within_nodes",
        "communication_inter_node_bytes_per_s": "trainmark.collect.metrics.communication_bandwidth:between_nodes",
        "network_bytes_per_s": "trainmark.collect.metrics.network_bytes_per_s:compute",
        "cpu_utilisation": "trainmark.collect.metrics.cpu_utilisation:compute",
        "gpu_utilisation": "trainmark.collect.metrics.gpu_utilisation:compute",
        "bubble_share": "trainmark.collect.metrics.bubble_share:compute",
        "staleness_steps": "trainmark.collect.metrics.staleness_steps:compute",
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
    "precisions": PRECISIONS,
    "parallel": PARALLEL,
    "communication": COMMUNICATION,
    "communication-precisions": COMMUNICATION_PRECISIONS,
    "launchers": LAUNCHERS,
    "metrics": METRICS,
}
