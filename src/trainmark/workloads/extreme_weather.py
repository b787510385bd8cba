"""AI500's science application: storms and atmospheric rivers found in climate data, scored by mAP at IoU 0.5."""

from dataclasses import replace

from trainmark.spec.workload import DataFacts, Workload, WorkloadSize

TINY = WorkloadSize(
    model="faster-rcnn",
    dataset="extreme-weather",
    task="detection",
    quality="map50",
    # A single member ends near 0.65; see docs/workloads/extreme-weather.md.
    target_quality=0.65,
    exponent=10,
    model_settings={
        "num_classes": 4,
        "channels": 16,
        "depth": 10,
        "width": 16,
        "pyramid_channels": 64,
        "hidden": 128,
        "anchor_scale": 3.0,
        "proposals_before_nms": 100,
        "proposals_after_nms": 100,
        "eval_proposals_before_nms": 100,
        "eval_proposals_after_nms": 50,
        "sampled_anchors": 64,
        "sampled_regions": 32,
    },
    recipe={
        "epochs": 8,
        "batch_size": 8,
        "optimizer": "sgd",
        "learning_rate": 0.04,
        "reference_batch_size": 8,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "schedule": "polynomial",
        "warmup_epochs": 1,
        "decay_power": 1.0,
    },
)

# AI500, Table 4; rate, momentum and decay are those of the feature pyramid's authors: 0.02 at 16 images.
FULL = replace(
    TINY,
    target_quality=0.35,
    model_settings={"num_classes": 4, "channels": 16},
    real_data=DataFacts(num_classes=4, sample_shape=(16, 768, 1152)),
    recipe={**TINY.recipe, "epochs": 50, "learning_rate": 0.02, "reference_batch_size": 16},
)

WORKLOAD = Workload(sizes={"tiny": TINY, "full": FULL})
