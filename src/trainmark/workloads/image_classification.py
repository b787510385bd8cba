"""AI500's business application: images into classes, scored by top-1 accuracy."""

from trainmark.spec.workload import Workload, WorkloadSize

TINY = WorkloadSize(
    model="resnet-tiny",
    dataset="shapes",
    task="classification",
    quality="top1",
    # A single member ends near 0.8 in six epochs; see docs/workloads/image-classification.md.
    target_quality=0.80,
    exponent=5,
    model_settings={"num_classes": 10, "width": 16},
    recipe={
        "epochs": 6,
        "batch_size": 32,
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "reference_batch_size": 32,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "schedule": "polynomial",
        "warmup_epochs": 1,
        "decay_power": 1.0,
        "compiler": "none",  # compiling takes longer than this whole training
        "memory_format": "channels-last",  # so few channels do not fill oneDNN's blocks
    },
)

WORKLOAD = Workload(sizes={"tiny": TINY})
