"""Layers are shared out to stages as evenly as they can be, and what cannot be shared out is refused."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from trainmark.spec.errors import PlanError
from trainmark.train.torch.parallel.stages import balanced_split, stages_of
from trainmark.workloads.find import find_card
from trainmark.workloads.flops.count import count_model, training_flop_by_layer


def smallest_largest_part(costs: list[int], parts: int) -> int:
    """Every way to cut, tried."""
    return min(
        max(sum(costs[start:end]) for start, end in pairwise((0, *cuts, len(costs))))
        for cuts in combinations(range(1, len(costs)), parts - 1)
    )


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.integers(1, 9))
def test_the_costliest_part_is_as_cheap_as_any_cut_can_make_it(costs: list[int], parts: int) -> None:
    parts = min(parts, len(costs))
    split = balanced_split(costs, parts)
    assert len(split) == parts and all(len(part) > 0 for part in split)
    assert [place for part in split for place in part] == list(range(len(costs)))
    assert max(sum(costs[place] for place in part) for part in split) == smallest_largest_part(costs, parts)


def test_a_known_split() -> None:
    # 9 | 5 5 | 1 1 6: largest 10; 9 5 | … would be 14.
    assert balanced_split([9, 5, 5, 1, 1, 6], 3) == [range(1), range(1, 3), range(3, 6)]


@pytest.mark.parametrize("name", ["resnet-tiny", "resnet50-v1.5"])
def test_the_layers_costs_add_up_to_the_models(name: str) -> None:
    counted = count_model(name, {})
    by_layer = training_flop_by_layer(find_card(name).build("torch", {}), tuple(counted["input_shape"]))
    assert sum(by_layer) == counted["conventions"]["exact"]["training"]


def test_a_stage_starts_with_a_layer_that_has_weights_and_keeps_what_follows_it() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    assert stages_of(model, 3, (3, 2, 2)) == [range(3), range(3, 5), range(5, 6)]
    # 12·4 against 4·4 + 4·2 multiply-adds: the first layer alone is the costlier half.
    assert stages_of(model, 2, (3, 2, 2)) == [range(3), range(3, 6)]


def test_a_batch_that_passes_one_stage_after_another_is_split_by_memory() -> None:
    model = find_card("resnet18").build("torch", {})
    # Large images: the first four layers keep 57 % of the activations with 17 % of the FLOPs.
    assert stages_of(model, 2, (3, 1500, 1000), samples=1) == [range(4), range(4, 14)]
    assert stages_of(model, 2, (3, 1500, 1000)) == [range(7), range(7, 14)]
    # Small ones: weights are most of the memory, and those of the last two blocks most of the weights.
    assert stages_of(model, 2, (3, 32, 32), samples=1) == [range(10), range(10, 14)]


def test_a_model_with_too_few_layers_is_refused_with_what_would_work() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(PlanError, match=r"2 layers with weights, too few for 3 stages.*train.stages=2.*sharded"):
        stages_of(model, 3, (4,))


def test_a_model_that_is_no_sequence_is_refused_with_what_would_work() -> None:
    with pytest.raises(PlanError, match=r"Linear.*sharded or data"):
        stages_of(nn.Linear(4, 4), 1, (4,))
