"""Registries of all named parts; an entry here makes a part available, listed and conformance-tested."""

from trainmark.spec.registry import Registry

WORKLOADS = Registry(
    "workload",
    {
        "image-classification": "trainmark.workloads.image_classification:WORKLOAD",
        "extreme-weather": "trainmark.workloads.extreme_weather:WORKLOAD",
        "artworks": "trainmark.workloads.artworks:WORKLOAD",
    },
    group="trainmark.workloads",
    must_have="sizes",
)

MODELS = Registry(
    "model",
    {
        "resnet-tiny": "trainmark.workloads.models:RESNET_TINY",
        "resnet18": "trainmark.workloads.models:RESNET18",
        "resnet34": "trainmark.workloads.models:RESNET34",
        "resnet50-v1": "trainmark.workloads.models:RESNET50_V1",
        "resnet50-v1.5": "trainmark.workloads.models:RESNET50_V1_5",
        "resnet101-v1": "trainmark.workloads.models:RESNET101_V1",
        "resnet101-v1.5": "trainmark.workloads.models:RESNET101_V1_5",
        "resnext50-32x4d": "trainmark.workloads.models:RESNEXT50_32X4D",
        "wide-resnet50-2": "trainmark.workloads.models:WIDE_RESNET50_2",
        "wide-resnet101-2": "trainmark.workloads.models:WIDE_RESNET101_2",
        "alexnet": "trainmark.workloads.models:ALEXNET",
        "vgg16": "trainmark.workloads.models:VGG16",
        "densenet121": "trainmark.workloads.models:DENSENET121",
        "vit-small": "trainmark.workloads.models:VIT_SMALL",
        "faster-rcnn": "trainmark.workloads.models:FASTER_RCNN",
    },
    group="trainmark.models",
    self_describing=True,
)

DATASETS = Registry(
    "dataset",
    {
        "artworks": "trainmark.data.datasets.artworks:Artworks",
        "cifar10": "trainmark.data.datasets.cifar10:Cifar10",
        "extreme-weather": "trainmark.data.datasets.extreme_weather:ExtremeWeather",
        "imagenet": "trainmark.data.datasets.imagenet:Imagenet",
        "pacs": "trainmark.data.datasets.pacs:Pacs",
        "shapes": "trainmark.data.datasets.shapes:Shapes",
        "synthetic": "trainmark.data.datasets.synthetic:Synthetic",
    },
    group="trainmark.datasets",
    must_have="Settings",
)

TASKS = Registry(
    "task",
    {
        "classification": "trainmark.train.torch.tasks:Classification",
        "detection": "trainmark.train.torch.tasks:Detection",
    },
    group="trainmark.tasks",
)

QUALITIES = Registry(
    "quality",
    {
        "map50": "trainmark.workloads.quality.map50:Map50",
        "map50-nms": "trainmark.workloads.quality.map50:Map50Nms",
        "top1": "trainmark.workloads.quality.top1:Top1",
        "top5": "trainmark.workloads.quality.top5:Top5",
    },
    group="trainmark.qualities",
    must_have="score",
)

BOOTSTRAPS = Registry(
    "bootstrap",
    {
        "poisson": "trainmark.data.bootstrap:poisson",
        "multinomial": "trainmark.data.bootstrap:multinomial",
        "none": "trainmark.data.bootstrap:none",
    },
    group="trainmark.bootstraps",
)

BATCHINGS = Registry(
    "batching",
    {
        "random": "trainmark.data.batching:random",
        "aspect": "trainmark.data.batching:aspect",
        "size": "trainmark.data.batching:size",
        "nearest": "trainmark.data.batching:nearest",
        "pixels": "trainmark.data.batching:pixels",
        "singles": "trainmark.data.batching:singles",
    },
    group="trainmark.batchings",
)

ENGINES = Registry(
    "engine",
    {
        "torch": "trainmark.train.torch.planning:OFFER",
    },
    group="trainmark.engines",
)

OPTIMIZERS = Registry(
    "optimizer",
    {
        "sgd": "trainmark.train.torch.optimizers.elementwise:sgd",
        "adam": "trainmark.train.torch.optimizers.elementwise:adam",
        "adamw": "trainmark.train.torch.optimizers.elementwise:adamw",
        "adagrad": "trainmark.train.torch.optimizers.elementwise:adagrad",
        "lars": "trainmark.train.torch.optimizers.layerwise:lars",
        "lamb": "trainmark.train.torch.optimizers.layerwise:lamb",
    },
    group="trainmark.optimizers",
)

SCHEDULES = Registry(
    "schedule",
    {
        "constant": "trainmark.workloads.learning_rate:constant",
        "step": "trainmark.workloads.learning_rate:step",
        "polynomial": "trainmark.workloads.learning_rate:polynomial",
        "cosine": "trainmark.workloads.learning_rate:cosine",
        "cyclic": "trainmark.workloads.learning_rate:cyclic",
    },
    group="trainmark.schedules",
)

PRECISIONS = Registry(
    "precision",
    {
        "fp32": "trainmark.train.torch.precision.floating:fp32",
        "tf32": "trainmark.train.torch.precision.floating:tf32",
        "bf16-mixed": "trainmark.train.torch.precision.floating:bf16_mixed",
        "fp16-mixed": "trainmark.train.torch.precision.floating:fp16_mixed",
        "fp16": "trainmark.train.torch.precision.floating:fp16",
        "int8": "trainmark.train.torch.precision.int8:build",
    },
    group="trainmark.precisions",
)

COMMUNICATION = Registry(
    "communication mode",
    {
        "allreduce": "trainmark.train.torch.communication.allreduce:allreduce",
        "ring": "trainmark.train.torch.communication.allreduce:ring",
        "hierarchical": "trainmark.train.torch.communication.allreduce:hierarchical",
        "torus-2d": "trainmark.train.torch.communication.allreduce:torus_2d",
        "mpi": "trainmark.train.torch.communication.mpi:build",
        "parameter-server": "trainmark.train.torch.communication.parameter_server:build",
        "local-sgd": "trainmark.train.torch.communication.local_sgd:build",
    },
    group="trainmark.communication",
)

COMMUNICATION_PRECISIONS = Registry(
    "communication precision",
    {
        "fp32": "trainmark.train.torch.communication.wire:fp32",
        "fp16": "trainmark.train.torch.communication.wire:fp16",
        "bf16": "trainmark.train.torch.communication.wire:bf16",
        "int8": "trainmark.train.torch.communication.wire:Int8",
        "powersgd": "trainmark.train.torch.communication.powersgd:PowerSgd",
    },
    group="trainmark.communication_precisions",
)

PARALLEL = Registry(
    "parallel mode",
    {
        "data": "trainmark.train.torch.parallel.data:build",
        "sharded": "trainmark.train.torch.parallel.sharded:build",
        "model": "trainmark.train.torch.parallel.pipeline:build_model_parallel",
        "gpipe": "trainmark.train.torch.parallel.pipeline:build_gpipe",
        "1f1b": "trainmark.train.torch.parallel.pipeline:build_1f1b",
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
        "throughput_samples_per_s": "trainmark.collect.metrics.speed:THROUGHPUT",
        "step_time_s": "trainmark.collect.metrics.speed:STEP_TIME",
        "epoch_time_s": "trainmark.collect.metrics.speed:EPOCH_TIME",
        "seconds_per_megapixel": "trainmark.collect.metrics.pixels:SECONDS_PER_MP",
        "seconds_per_informative_megapixel": "trainmark.collect.metrics.pixels:SECONDS_PER_INFORMATIVE_MP",
        "megapixels_per_step": "trainmark.collect.metrics.pixels:TOTAL",
        "informative_megapixels_per_step": "trainmark.collect.metrics.pixels:INFORMATIVE",
        "padding_megapixels_per_step": "trainmark.collect.metrics.pixels:PADDING",
        "padding_ratio": "trainmark.collect.metrics.pixels:RATIO",
        "flops": "trainmark.collect.metrics.flops:FLOPS",
        "flops_steady": "trainmark.collect.metrics.flops:FLOPS_STEADY",
        "apc_flop": "trainmark.collect.metrics.parallel_computation:APC",
        "ceiling_flops": "trainmark.collect.metrics.ceiling:CEILING",
        "flops_share_of_ceiling": "trainmark.collect.metrics.ceiling:SHARE",
        "quality_member_mean": "trainmark.collect.metrics.quality:MEMBER_MEAN",
        "quality_member_best": "trainmark.collect.metrics.quality:MEMBER_BEST",
        "quality_out_of_bag": "trainmark.collect.metrics.quality:OUT_OF_BAG",
        "quality_ensemble": "trainmark.collect.metrics.quality:ENSEMBLE",
        "top5_member_mean": "trainmark.collect.metrics.quality:TOP5_MEMBER_MEAN",
        "top5_ensemble": "trainmark.collect.metrics.quality:TOP5_ENSEMBLE",
        "vflops": "trainmark.collect.metrics.flops:VFLOPS",
        "epochs_to_target": "trainmark.collect.metrics.target:EPOCHS_TO_TARGET",
        "time_to_target_s": "trainmark.collect.metrics.target:TIME_TO_TARGET",
        "flop_to_target": "trainmark.collect.metrics.target:FLOP_TO_TARGET",
        "time_to_train_all_s": "trainmark.collect.metrics.speed:TIME_TO_TRAIN_ALL",
        "staging_time_s": "trainmark.collect.metrics.speed:STAGING_TIME",
        "inference_samples_per_s": "trainmark.collect.metrics.inference:THROUGHPUT",
        "inference_latency_p50_s": "trainmark.collect.metrics.inference:LATENCY_P50",
        "inference_latency_p99_s": "trainmark.collect.metrics.inference:LATENCY_P99",
        "models_per_minute": "trainmark.collect.metrics.speed:MODELS_PER_MINUTE",
        "step_memory_bytes": "trainmark.collect.metrics.memory:STEP_MEMORY",
        "peak_memory_bytes": "trainmark.collect.metrics.memory:PEAK_MEMORY",
        "communication_share": "trainmark.collect.metrics.communication:SHARE",
        "load_balance": "trainmark.collect.metrics.efficiency:LOAD_BALANCE",
        "communication_efficiency": "trainmark.collect.metrics.efficiency:COMMUNICATION",
        "parallel_efficiency": "trainmark.collect.metrics.efficiency:PARALLEL",
        "communication_bytes_per_step": "trainmark.collect.metrics.communication:BYTES_PER_STEP",
        "communication_intra_node_bytes_per_s": "trainmark.collect.metrics.communication:INTRA_NODE",
        "communication_inter_node_bytes_per_s": "trainmark.collect.metrics.communication:INTER_NODE",
        "network_bytes_per_s": "trainmark.collect.metrics.utilisation:NETWORK",
        "cpu_utilisation": "trainmark.collect.metrics.utilisation:CPU",
        "gpu_utilisation": "trainmark.collect.metrics.utilisation:GPU",
        "bubble_share": "trainmark.collect.metrics.communication:BUBBLE",
        "staleness_steps": "trainmark.collect.metrics.communication:STALENESS",
        "instructions_per_megapixel": "trainmark.collect.metrics.counters:INSTRUCTIONS",
        "instructions_per_cycle": "trainmark.collect.metrics.counters:PER_CYCLE",
        "cache_misses_per_1000_instructions": "trainmark.collect.metrics.counters:CACHE_MISSES",
        "data_wait_share": "trainmark.collect.metrics.speed:DATA_WAIT",
        "harness_overhead_share": "trainmark.collect.metrics.speed:HARNESS_OVERHEAD",
    },
    group="trainmark.metrics",
    self_describing=True,
)

STUDIES = Registry(
    "study",
    {
        "scaling": "trainmark.studies.scaling:SCALING",
        "utilisation": "trainmark.studies.utilisation:UTILISATION",
        "trade-off": "trainmark.studies.trade_off:TRADE_OFF",
        "optimisations": "trainmark.studies.optimisations:OPTIMISATIONS",
        "bagging-or-data-parallel": "trainmark.studies.bagging:BAGGING",
        "threads": "trainmark.studies.threads:THREADS",
        "hybrid": "trainmark.studies.hybrid:HYBRID",
        "nodes": "trainmark.studies.nodes:NODES",
        "weak-scaling": "trainmark.studies.weak_scaling:WEAK_SCALING",
        "variants": "trainmark.studies.variants:VARIANTS",
        "large-batch": "trainmark.studies.large_batch:LARGE_BATCH",
        "repeatability": "trainmark.studies.repeatability:REPEATABILITY",
        "schedules": "trainmark.studies.schedules:SCHEDULES",
        "memory": "trainmark.studies.memory:MEMORY",
        "ensemble": "trainmark.studies.ensemble:ENSEMBLE",
        "size-and-shape": "trainmark.studies.size_and_shape:SIZE_AND_SHAPE",
        "batching": "trainmark.studies.batching:BATCHING",
    },
    group="trainmark.studies",
    self_describing=True,
)

KINDS = {
    "workloads": WORKLOADS,
    "models": MODELS,
    "datasets": DATASETS,
    "bootstraps": BOOTSTRAPS,
    "batchings": BATCHINGS,
    "engines": ENGINES,
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
    "studies": STUDIES,
}
