"""AI500's business application: images into classes, scored by top-1 accuracy."""

from dataclasses import replace

from trainmark.spec.workload import DataFacts, Workload, WorkloadSize

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
        "torch": {"compiler": "none"},  # compilation takes longer than this training
    },
)

# AI500, Table 4; the recipe is that of Goyal et al. 2017: 0.1 at 256 images, five epochs of warm-up.
FULL = WorkloadSize(
    model="resnet50-v1.5",
    dataset="imagenet",
    task="classification",
    quality="top1",
    target_quality=0.763,
    exponent=5,
    model_settings={"num_classes": 1000},
    real_data=DataFacts(num_train=1_281_167, num_eval=50_000, num_classes=1000, sample_shape=(3, 224, 224)),
    recipe={
        "epochs": 90,
        "batch_size": 256,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "reference_batch_size": 256,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "schedule": "polynomial",
        "warmup_epochs": 5,
        "decay_power": 2.0,
        "augmentation": "crop",
    },
)

# PyTorch on CPUs: 128 images per rank, rate scaled with ranks; no published target, so these are ours.
CIFAR10 = WorkloadSize(
    model="resnet34",
    dataset="cifar10",
    task="classification",
    quality="top1",
    target_quality=0.75,
    exponent=5,
    model_settings={"num_classes": 10},
    real_data=DataFacts(num_train=50_000, num_eval=10_000, num_classes=10, sample_shape=(3, 32, 32)),
    recipe={
        "epochs": 30,
        "batch_size": 128,
        "optimizer": "sgd",
        "learning_rate": 0.05,
        "reference_batch_size": 128,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "schedule": "polynomial",
        "warmup_epochs": 2,
        "decay_power": 1.0,
    },
)
PACS = replace(
    CIFAR10,
    dataset="pacs",
    target_quality=0.60,
    model_settings={"num_classes": 7},
    # Paintings, cartoons and photos, held-out ones for evaluation.
    real_data=DataFacts(num_train=5444, num_eval=605, num_classes=7, sample_shape=(3, 224, 224)),
    recipe={**CIFAR10.recipe, "batch_size": 32, "reference_batch_size": 32, "augmentation": "crop-colour"},
)

WORKLOAD = Workload(sizes={"tiny": TINY, "full": FULL, "cifar10": CIFAR10, "pacs": PACS})
