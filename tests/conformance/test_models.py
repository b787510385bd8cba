"""Every model: its card states the truth of the torch model, which has its published size, and learns."""

import copy
import inspect
import math
from collections.abc import Iterator, Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainmark.data.facts import declared_facts
from trainmark.spec.config import Setting
from trainmark.spec.model_card import BLOCK_CHANNELS
from trainmark.spec.registries import MODELS, TASKS, WORKLOADS
from trainmark.spec.registry import load_attribute
from trainmark.train.torch.compilation import BlockedLayout
from trainmark.workloads.cost import COSTS, Cost, cost_of
from trainmark.workloads.find import find_card, find_size
from trainmark.workloads.flops.count import count_model
from trainmark.workloads.flops.liveness import TECHNIQUES, live_bytes

# At 1000 classes, as published.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50-v1": 25_557_032,
    "resnet50-v1.5": 25_557_032,
    "resnet101-v1": 44_549_160,
    "resnet101-v1.5": 44_549_160,
    "resnext50-32x4d": 25_028_904,
    "wide-resnet50-2": 68_883_240,
    "wide-resnet101-2": 126_886_696,
    "vgg16": 138_357_544,
    "densenet121": 7_978_856,
    "alexnet": 61_100_840,
    # Patches, class token and 197 positions; blocks: two norms, queries to values, output, two layers; norm, classes.
    "vit-small": (3 * 256 + 1 + 1 + 197) * 384
    + 12 * (4 * 384 + 384 * 1152 + 1152 + 384 * 384 + 384 + 2 * 384 * 1536 + 1536 + 384)
    + 2 * 384
    + 385 * 1000,
}
CARDS = {name: find_card(name) for name in MODELS}
BUILDERS = [(name, engine) for name, card in CARDS.items() for engine in card.builders]
CLASSIFIERS = [name for name, card in CARDS.items() if card.task == "classification"]
# Deeper or wider stacks of what ResNet-18 and -50 are made of; tests that run a whole model take those instead.
STACKED = {"resnet34", "resnet101-v1", "resnet101-v1.5", "wide-resnet50-2", "wide-resnet101-2"}
# These can be trained in oneDNN's layout, whether or not that is their default.
STATED_BLOCKED = {name for name, card in CARDS.items() if card.blocked_layout}
BLOCKED = sorted(STATED_BLOCKED | PARAMETERS.keys() - {"densenet121", "vit-small"})


def with_seed(name: str, **settings: int) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = CARDS[name].build("torch", settings)
    return model


def on_meta(name: str) -> nn.Module:
    with torch.device("meta"):
        model: nn.Module = CARDS[name].build("torch", {})
    return model


def cheaply(name: str, **settings: int) -> nn.Module:
    """For evaluation, where the weights do not matter: random ones take seconds."""
    with torch.device("meta"):
        model: nn.Module = CARDS[name].build("torch", settings)
    model.to_empty(device="cpu")
    for values in (*model.parameters(), *model.buffers()):
        values.detach().fill_(0.001)
    return model.eval()


@pytest.mark.parametrize("name", list(MODELS))
def test_a_card_has_the_name_it_is_listed_by_and_a_known_task(name: str) -> None:
    card = CARDS[name]
    assert card.name == name
    assert card.task in TASKS
    assert card.description == MODELS.describe(name)


@pytest.mark.parametrize(("name", "engine"), BUILDERS)
def test_a_cards_settings_and_their_defaults_are_its_builders_arguments(name: str, engine: str) -> None:
    card = CARDS[name]
    builder = load_attribute(card.builders[engine], f"builder of {name}")
    arguments = inspect.signature(builder).parameters.values()
    assert {argument.name: argument.default for argument in arguments} == dict(card.settings)
    # Equal is not enough: 8 is a count, and 8.0 any number.
    assert [type(argument.default) for argument in arguments] == [type(value) for value in card.settings.values()]


@pytest.mark.parametrize("name", list(MODELS))
def test_what_a_card_says_of_settings_is_about_settings_that_it_has(name: str) -> None:
    card = CARDS[name]
    assert set(card.allowed) <= set(card.settings)
    assert all(card.settings[key] in values for key, values in card.allowed.items())
    assert card.strided_1x1_input is None or card.strided_1x1_input in card.settings
    assert card.settings.get("channels", card.input_shape[0]) == card.input_shape[0]


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_takes_the_input_shape_that_its_card_states(name: str) -> None:
    outputs = on_meta(name)(torch.empty(2, *CARDS[name].input_shape, device="meta"))
    assert outputs.shape[0] == 2


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_whose_cost_depends_on_proposals_has_no_fixed_shapes(name: str) -> None:
    assert CARDS[name].has_fixed_shapes is not hasattr(on_meta(name), "per_proposal")


@pytest.mark.parametrize("name", list(MODELS))
def test_a_card_states_whether_the_model_has_batch_normalisation(name: str) -> None:
    layers = [layer for layer in on_meta(name).modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    assert CARDS[name].has_batch_norm is bool(layers)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_that_states_its_layers_has_as_many_with_weights(name: str) -> None:
    stated = CARDS[name].num_layers
    if stated is None:
        pytest.skip("its card states no layers, so it is not trained in stages")
    model = on_meta(name)
    assert isinstance(model, nn.Sequential)
    assert sum(any(True for _ in layer.parameters()) for layer in model) == stated


@pytest.mark.parametrize("name", [name for name in CARDS if CARDS[name].any_shape and CARDS[name].has_batch_norm])
def test_the_largest_image_of_one_feature_is_what_its_card_states(name: str) -> None:
    model, card = on_meta(name), CARDS[name]
    fewest: list[int] = []
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.register_forward_pre_hook(lambda _, inputs: fewest.append(inputs[0][0, 0].numel()))
    for more, values in ((0, 1), (1, 2)):
        fewest.clear()
        model(torch.empty(2, 3, card.one_feature_side, card.one_feature_side + more, device="meta"))
        assert min(fewest) == values


def counted_cost(name: str, settings: Mapping[str, Setting], shape: tuple[int, ...] | None) -> Cost:
    count = count_model(name, settings, shape)
    exact = count["conventions"]["exact"]
    regions = CARDS[name].value_of("sampled_regions", settings) or 0
    assert isinstance(regions, int)
    flop = exact["training"] + regions * exact.get("per_proposal", {}).get("training", 0)
    return Cost(flop / 1e9, count["parameters"], count["activation_bytes"], COSTS[name].live)


@pytest.mark.parametrize("name", list(COSTS))
def test_the_cost_that_plans_are_estimated_with_is_what_is_counted(name: str) -> None:
    counted = counted_cost(name, {}, None)
    assert COSTS[name].gflop == pytest.approx(counted.gflop, rel=1e-3)
    assert COSTS[name][1:3] == counted[1:3]
    assert cost_of(name, {"num_classes": 7}, CARDS[name].input_shape) == COSTS[name]


# One of each family: all the others would take minutes.
LIVE = {"resnet-tiny": range(6), "resnet18": (1, 3), "densenet121": (0,), "vgg16": (2,), "vit-small": (4,)}


@pytest.mark.parametrize("name", LIVE)
def test_the_live_memory_that_plans_are_estimated_with_is_what_is_counted(name: str) -> None:
    for place in LIVE[name]:
        technique, is_half = TECHNIQUES[place % 3], place >= 3
        assert live_bytes(name, {}, CARDS[name].input_shape, technique, is_half=is_half) == COSTS[name].live[place]


@pytest.mark.parametrize("name", list(COSTS))
def test_a_pass_holds_what_is_kept_and_some_gradients_and_techniques_hold_less(name: str) -> None:
    cost = COSTS[name]
    kept, recomputed, offloaded, *half = cost.live
    # A transformer's attention is kept once more in a form that a fused operator does not need.
    assert 0.85 * cost.activation_bytes < kept < 1.2 * cost.activation_bytes
    assert offloaded < recomputed <= kept
    assert all(0.5 * whole <= small < 0.77 * whole for whole, small in zip(cost.live, half, strict=False))


def test_the_cost_of_each_workload_in_each_size_is_known_without_torch() -> None:
    tiny = find_size("extreme-weather", "tiny")
    counted = counted_cost(tiny.model, tiny.model_settings, (16, 64, 96))
    known = cost_of(tiny.model, tiny.model_settings, (16, 64, 96))
    assert known is not None and known.gflop == pytest.approx(counted.gflop, rel=1e-3) and known[1:3] == counted[1:3]
    assert set(COSTS) >= set(MODELS)
    for workload in WORKLOADS:
        for size in WORKLOADS.load(workload).sizes.values():
            assert cost_of(size.model, size.model_settings, declared_facts(size).sample_shape) is not None


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_has_its_published_number_of_parameters(name: str) -> None:
    assert sum(parameter.numel() for parameter in on_meta(name).parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in STACKED])
def test_a_classifier_learns(name: str) -> None:
    model = with_seed(name, num_classes=4)
    side = max(32, CARDS[name].smallest_side)
    images, labels = torch.randn(8, CARDS[name].input_shape[0], side, side), torch.arange(8) % 4
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def loss() -> Tensor:
        torch.manual_seed(1)  # the same units drop out each time
        return F.cross_entropy(model(images), labels)

    before = loss()
    before.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
    with torch.no_grad():
        after = loss()
    assert after.isfinite() and after < before


@pytest.mark.parametrize(
    "name", [name for name in CLASSIFIERS if "channels" in CARDS[name].settings and name not in STACKED]
)
def test_a_classifier_takes_images_of_another_size_and_number_of_channels(name: str) -> None:
    model = cheaply(name, num_classes=5, channels=2)
    with torch.no_grad():
        outputs = model(torch.randn(2, 2, 72, 97))
    assert outputs.shape == (2, 5)
    assert outputs.isfinite().all()


@pytest.mark.parametrize("name", list(MODELS))
def test_the_smallest_image_that_its_card_states_is_the_smallest_it_takes(name: str) -> None:
    smallest = CARDS[name].smallest_side
    channels = CARDS[name].input_shape[0]
    with torch.device("meta"):
        model = CARDS[name].build("torch", {}).train()
        run = getattr(model, "dense", model)
        run(torch.empty(2, channels, smallest, 97))
        run(torch.empty(2, channels, 97, smallest))
        if smallest > 1:
            with pytest.raises(RuntimeError, match="size"):
                run(torch.empty(2, channels, smallest - 1, 97))


# The models with a width, as narrow as they get.
NARROWEST = {name: {"width": 1} for name, card in CARDS.items() if "width" in card.settings}
# A block less one, and a block, of oneDNN's with AVX2 and AVX-512.
WIDTHS = [(name, {"width": width}) for name in NARROWEST for width in (4, 7, 8, 15, 16)]


def layers_with_inputs(name: str, settings: dict[str, int]) -> Iterator[tuple[nn.Module, torch.Size]]:
    """The layers of a model that see images, each kind once, and the shapes that they see."""
    least = max(32, CARDS[name].smallest_side)
    channels = CARDS[name].input_shape[0]
    with torch.device("meta"):
        model = CARDS[name].build("torch", settings)
        found: dict[str, tuple[nn.Module, torch.Size]] = {}
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
                layer.register_forward_hook(
                    lambda layer, inputs, _: found.update({f"{layer} {inputs[0].shape}": (layer, inputs[0].shape)})
                )
        for side in (least, 16, 20, 64) if settings else (least,):  # narrow layers are light, and faults rare
            getattr(model, "dense", model)(torch.empty(4, channels, side, side))
    yield from found.values()


def gradients_of(layer: nn.Module, inputs: Tensor, *, is_blocked: bool = False) -> dict[str, Tensor]:
    """The gradients of a layer's weights and inputs, in float64."""
    inputs = inputs.clone(memory_format=torch.preserve_format).requires_grad_()
    outputs = layer(inputs.to_mkldnn()).to_dense() if is_blocked else layer(inputs)
    weighed = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(2)).to(outputs)
    outputs.backward(weighed.contiguous(memory_format=memory_format_of(outputs)))
    return {key: value.grad.double() for key, value in (("inputs", inputs), *layer.named_parameters())}


def memory_format_of(images: Tensor) -> torch.memory_format:
    is_last = images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()
    return torch.channels_last if is_last else torch.contiguous_format


def planned_formats(name: str, settings: dict[str, int]) -> list[str]:
    """The layouts in which the plan trains the model on CPUs; it refuses the others."""
    last = ["channels-last"] if CARDS[name].narrow_channels(settings) is None else []
    return ["contiguous", *last, *(["onednn"] if name in BLOCKED else [])]


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in MODELS), *NARROWEST.items(), *WIDTHS],
    ids=lambda each: "-".join(f"{key}{value}" for key, value in each.items()) if isinstance(each, dict) else each,
)
def test_gradients_are_those_of_float64_in_every_memory_format(name: str, settings: dict[str, int]) -> None:
    for layer, shape in layers_with_inputs(name, settings):
        for planned in planned_formats(name, settings):
            what = f"{layer}, inputs {tuple(shape)}, {planned}"
            if what not in ERRORS:  # models have many layers in common
                ERRORS[what] = error_of_gradients(layer, shape, planned)
            assert ERRORS[what] < 1e-4, what


ERRORS: dict[str, float] = {}


def error_of_gradients(layer: nn.Module, shape: torch.Size, planned: str) -> float:
    """The largest relative error of a gradient of the layer, in fp32 and the planned layout."""
    torch.manual_seed(1)
    exact = copy.deepcopy(layer).to_empty(device="cpu").double()
    for weight in exact.parameters():
        nn.init.normal_(weight)
    images = torch.randn(shape, dtype=torch.float64)
    layout = torch.channels_last if planned == "channels-last" else torch.contiguous_format
    single = copy.deepcopy(exact).to(torch.float32, memory_format=layout)  # type: ignore[call-overload]
    found = gradients_of(single, images.float().to(memory_format=layout), is_blocked=planned == "onednn")
    expected = gradients_of(exact, images).items()
    return max(((found[key] - value).norm() / value.norm()).item() for key, value in expected)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_card_states_which_setting_is_the_input_of_its_narrowest_strided_1x1_convolution(name: str) -> None:
    stated = CARDS[name].strided_1x1_input
    with torch.device("meta"):
        model = CARDS[name].build("torch", {stated: 5} if stated else {})
    narrowest = min(
        (
            layer.in_channels // layer.groups
            for layer in model.modules()
            if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1) and layer.stride != (1, 1)
        ),
        default=BLOCK_CHANNELS,
    )
    # A ResNet of bottlenecks has four times the width there; what counts is that none is narrower than stated.
    assert narrowest >= (5 if stated else BLOCK_CHANNELS)


@pytest.mark.parametrize("name", [name for name in BLOCKED if name not in STACKED])
def test_a_model_trains_in_onednns_layout(name: str) -> None:
    model = with_seed(name, num_classes=4)
    for size in ((64, 64), (72, 97)):
        images, labels = torch.randn(4, 3, *size), torch.arange(4)
        outputs = []
        for form in (model, BlockedLayout(model)):
            torch.manual_seed(1)
            outputs.append(form(images))
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-3, atol=1e-3)
    F.cross_entropy(outputs[1], labels).backward()  # of the odd size
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", ["alexnet", "densenet121", "resnet18", "vit-small"])  # every kind of layer there is
def test_a_classifier_can_be_scripted(name: str) -> None:
    model = with_seed(name, num_classes=4).eval()
    images = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        torch.testing.assert_close(torch.jit.script(model)(images), model(images))


def of_kind(model: nn.Module, *kinds: type[nn.Module]) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of all layers of these kinds, in order."""
    return [(module.weight, module.bias) for module in model.modules() if isinstance(module, kinds)]


def test_alexnet_starts_as_its_paper_says() -> None:
    layers = of_kind(with_seed("alexnet", num_classes=4), nn.Conv2d, nn.Linear)
    assert [bias.unique().tolist() for _, bias in layers] == [[0], [1], [0], [1], [1], [1], [1], [0]]
    assert all(weight.std().item() == pytest.approx(0.01, rel=0.05) for weight, _ in layers)


def test_vgg16_starts_by_glorots_rule() -> None:
    for weight, bias in of_kind(with_seed("vgg16", num_classes=4), nn.Conv2d, nn.Linear):
        kernel = weight[0, 0].numel()
        largest = math.sqrt(6 / (kernel * (weight.shape[0] + weight.shape[1])))
        assert 0.95 * largest < weight.abs().max().item() <= largest
        assert not bias.any()


@pytest.mark.parametrize(("name", "fan"), [("resnet18", 0), ("densenet121", 1)])
def test_residual_and_dense_networks_start_by_hes_rule(name: str, fan: int) -> None:
    # √(2 / fan); ResNets take the fan out, DenseNets the fan in.
    for weight, _ in of_kind(with_seed(name, num_classes=4), nn.Conv2d):
        assert weight.std().item() == pytest.approx(math.sqrt(2 / (weight[0, 0].numel() * weight.shape[fan])), rel=0.05)


def test_vit_small_starts_with_truncated_normal_weights_without_biases() -> None:
    for weight, bias in of_kind(with_seed("vit-small", num_classes=1000), nn.Conv2d, nn.Linear):
        assert weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not bias.any()


def test_vit_smalls_positions_are_interpolated_to_another_grid() -> None:
    embedding = with_seed("vit-small", num_classes=4)[0]  # type: ignore[index]
    across = torch.arange(14.0).expand(1, 384, 14, 14)
    with torch.no_grad():
        embedding.positions.copy_(across)
        embedding.patches.weight.zero_()
        tokens = embedding(torch.randn(1, 3, 64, 112))
    # 4 × 7 patches and the class token. A column of seven lies between two of fourteen: 0.5, 2.5, …, 12.5.
    assert tokens.shape == (1, 1 + 4 * 7, 384)
    grid = tokens[0, 1:, 0].view(4, 7)
    torch.testing.assert_close(grid[:, 1:-1], torch.tensor([2.5, 4.5, 6.5, 8.5, 10.5]).expand(4, 5))
