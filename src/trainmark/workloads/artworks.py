"""HRVS: artworks of every size and shape into mediums, at low, medium and high resolution, by top-1 accuracy."""

from dataclasses import replace

from trainmark.spec.workload import DataFacts, Workload, WorkloadSize

# HRVS, Section 3: ResNet-18 with adaptive pooling, Adam with a constant rate of 1e-4, betas 0.9 and 0.999, no weight
# decay. It measures speed and trains for ten steps; epochs and target are ours.
LOW = WorkloadSize(
    model="resnet18",
    dataset="artworks",
    task="classification",
    quality="top1",
    target_quality=0.60,
    exponent=5,
    model_settings={"num_classes": 29},
    data_settings={"input": "lr"},
    real_data=DataFacts(num_train=20_300, num_eval=1450, num_classes=29, sample_shape=(3, 256, 256)),
    recipe={
        "epochs": 20,
        "batch_size": 1024,
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "reference_batch_size": 1024,
        "rate_scaling": "none",
        "momentum": 0.9,
        "beta2": 0.999,
        "weight_decay": 0.0,
        "schedule": "constant",
    },
)
# Medians of the real heights and widths.
MEDIUM = replace(
    LOW,
    data_settings={"input": "mr"},
    real_data=replace(LOW.real_data or DataFacts(), sample_shape=(3, 552, 500)),
    recipe={**LOW.recipe, "batch_size": 32, "reference_batch_size": 32},
)
HIGH = replace(
    LOW,
    data_settings={"input": "hr"},
    real_data=replace(LOW.real_data or DataFacts(), sample_shape=(3, 2893, 2667)),
    recipe={**LOW.recipe, "batch_size": 4, "reference_batch_size": 4},
)

# The same shapes at a hundredth of the size, and few enough pictures for a minute on two cores.
TINY = replace(
    LOW,
    model="resnet-tiny",
    # Squashed to 48 × 48, a single member ends near 0.82 and two together near 0.90.
    target_quality=0.70,
    model_settings={"num_classes": 16, "width": 16},
    data_settings={
        "input": "mr",
        "side": 48,
        "num_train": 768,
        "num_eval": 256,
        "num_classes": 16,
        "mean_megapixels": 0.03,
    },
    real_data=None,
    recipe={
        **LOW.recipe,
        "epochs": 8,
        "batch_size": 16,
        "reference_batch_size": 16,
        "learning_rate": 2e-3,
        "torch": {"compiler": "none"},  # compilation takes longer than this training
    },
)

WORKLOAD = Workload(sizes={"tiny": TINY, "lr": LOW, "mr": MEDIUM, "hr": HIGH})
