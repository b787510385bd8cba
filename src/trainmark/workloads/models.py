"""The cards of all models; tests/conformance/test_models.py checks each against the model itself."""

from trainmark.spec.model_card import ModelCard

IMAGE = (3, 224, 224)
CLASSIFIER = {"num_classes": 1000, "channels": 3}
TORCH = "trainmark.train.torch.models"

RESNET_TINY = ModelCard(
    name="resnet-tiny",
    description="A residual network of three blocks for 32 × 32 images; `width` channels at first, four times as many "
    "at last.",
    input_shape=(3, 32, 32),
    settings={"num_classes": 10, "width": 16, "channels": 3},
    num_layers=5,
    strided_1x1_input="width",
    any_shape=True,
    one_feature_side=8,
    builders={"torch": f"{TORCH}.resnets:resnet_tiny"},
)

RESNET18 = ModelCard(
    name="resnet18",
    description="ResNet-18: four stages of two basic blocks; 11.69 million parameters for 1000 classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=10,
    blocked_layout=True,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnet18"},
)

RESNET34 = ModelCard(
    name="resnet34",
    description="ResNet-34: four stages of 3, 4, 6 and 3 basic blocks; 21.80 million parameters for 1000 classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=18,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnet34"},
)

RESNET50_V1 = ModelCard(
    name="resnet50-v1",
    description="ResNet-50 v1: a stage's stride is in its first 1×1 convolution; 25.56 million parameters.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=18,
    blocked_layout=True,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnet50_v1"},
)

RESNET50_V1_5 = ModelCard(
    name="resnet50-v1.5",
    description="ResNet-50 v1.5: a stage's stride is in its first 3×3 convolution; 25.56 million parameters.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=18,
    blocked_layout=True,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnet50_v1_5"},
)

RESNET101_V1 = ModelCard(
    name="resnet101-v1",
    description="ResNet-101 v1: a stage's stride is in its first 1×1 convolution; 44.55 million parameters.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=35,
    blocked_layout=True,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnet101_v1"},
)

RESNET101_V1_5 = ModelCard(
    name="resnet101-v1.5",
    description="ResNet-101 v1.5: a stage's stride is in its first 3×3 convolution; 44.55 million parameters.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=35,
    blocked_layout=True,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnet101_v1_5"},
)

RESNEXT50_32X4D = ModelCard(
    name="resnext50-32x4d",
    description="ResNeXt-50 32×4d: bottlenecks with grouped 3×3 convolutions; 25.03 million parameters for 1000 "
    "classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=18,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:resnext50_32x4d"},
)

WIDE_RESNET50_2 = ModelCard(
    name="wide-resnet50-2",
    description="Wide-ResNet-50-2: bottlenecks twice as wide inside; 68.88 million parameters for 1000 classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=18,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:wide_resnet50_2"},
)

WIDE_RESNET101_2 = ModelCard(
    name="wide-resnet101-2",
    description="Wide-ResNet-101-2: bottlenecks twice as wide inside; 126.89 million parameters for 1000 classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=35,
    any_shape=True,
    one_feature_side=32,
    builders={"torch": f"{TORCH}.resnets:wide_resnet101_2"},
)

ALEXNET = ModelCard(
    name="alexnet",
    description="AlexNet, the one-tower form, for images of at least 63 × 63; 61.10 million parameters for 1000 "
    "classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=8,
    has_batch_norm=False,
    smallest_side=63,  # below, nothing is left for the last pooling
    builders={"torch": f"{TORCH}.alexnet_vgg:alexnet"},
)

VGG16 = ModelCard(
    name="vgg16",
    description="VGG-16 for images of at least 32 × 32; 138.36 million parameters for 1000 classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=16,
    has_batch_norm=False,
    smallest_side=32,  # five poolings halve it
    builders={"torch": f"{TORCH}.alexnet_vgg:vgg16"},
)

DENSENET121 = ModelCard(
    name="densenet121",
    description="DenseNet-121: blocks of 6, 12, 24 and 16 dense layers; 7.98 million parameters for 1000 classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=64,
    smallest_side=29,  # below, nothing is left for the last transition
    any_shape=True,
    one_feature_side=60,
    builders={"torch": f"{TORCH}.densenet121:densenet121"},
)

VIT_SMALL = ModelCard(
    name="vit-small",
    description="ViT-Small: 12 pre-norm blocks of width 384 over 16 × 16 patches; 22.05 million parameters for 1000 "
    "classes.",
    input_shape=IMAGE,
    settings=CLASSIFIER,
    num_layers=15,
    has_batch_norm=False,
    smallest_side=16,  # one patch
    builders={"torch": f"{TORCH}.vit_small:vit_small"},
)

FASTER_RCNN = ModelCard(
    name="faster-rcnn",
    description="Faster R-CNN: boxes with a class, by a ResNet (v1.5), a feature pyramid and two stages of detection.",
    task="detection",
    input_shape=(16, 768, 1152),
    settings={
        "num_classes": 4,
        "channels": 16,
        "depth": 50,
        "width": 64,
        "pyramid_channels": 256,
        "hidden": 1024,
        "anchor_scale": 8.0,
        "proposals_before_nms": 2000,
        "proposals_after_nms": 2000,
        "eval_proposals_before_nms": 1000,
        "eval_proposals_after_nms": 1000,
        "proposal_overlap": 0.7,
        "sampled_anchors": 256,
        "sampled_regions": 512,
        "detections": 100,
        "score_threshold": 0.05,
        "detection_overlap": 0.5,
    },
    allowed={"depth": (10, 18, 34, 50, 101)},
    has_fixed_shapes=False,  # the number of regions depends on the data
    strided_1x1_input="width",
    builders={"torch": f"{TORCH}.faster_rcnn:faster_rcnn"},
)
