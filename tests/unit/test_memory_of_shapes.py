"""Memory of images of unlike shapes: which samples do not fit, and the largest pass of a run, before it runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.planned import planned_config
from trainmark.data.bootstrap import sample_counts
from trainmark.data.epochs import replica_epoch
from trainmark.plan.data_check import check_features
from trainmark.plan.estimate import estimate_run
from trainmark.plan.make import make_plan
from trainmark.plan.pass_sizes import pass_sizes
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.report.plan_text import estimate_lines
from trainmark.spec.config import RunConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.site import NodeGroup, Site, Slot
from trainmark.spec.workload import DataFacts
from trainmark.workloads.cost import COSTS
from trainmark.workloads.flops.shapes import cost_by_shape
from trainmark.workloads.memory import bytes_of_samples, live_bytes, model_bytes, samples_over, state_bytes

GIB = 2**30


def config_of(**train: Any) -> RunConfig:
    """One member with ResNet-18 and Adam in fp32, on images of unlike shapes."""
    return planned_config(
        model="resnet18",
        dataset="artworks",
        data={"input": "hr"},
        ensemble={"members": 1},
        train={"optimizer": "adam", "precision": "fp32", **train},
    )


def test_a_sample_takes_the_state_of_the_model_and_its_own_activations() -> None:
    config, cost = config_of(), COSTS["resnet18"]
    needed = bytes_of_samples("resnet18", config.model_settings, [(224, 224), (2240, 224)], config.train, "glibc-mmap")
    assert needed is not None
    # 11.7 million weights × 4 bytes × (weights, gradients, two of Adam); 22 MB and 223 MB at the peak of a pass × 1.03.
    state = 4 * 11_689_512 * 4
    assert state_bytes(cost.parameters, "adam") == state
    assert needed.tolist() == pytest.approx([state + 1.03 * 22_339_392, state + 1.03 * 223_393_920])
    halves = bytes_of_samples("resnet18", {}, [(224, 224)], config.train, "glibc-mmap", parts=2)
    assert halves is not None and halves.tolist() == pytest.approx([needed[0] / 2])
    assert bytes_of_samples("unheard-of", {}, [(8, 8)], config.train, None) is None


def test_the_table_by_area_is_within_a_few_percent_of_the_exact_count_of_large_images() -> None:
    shapes = np.array([(500, 333), (3000, 2250), (2893, 2667), (501, 2999)])
    exact = cost_by_shape("resnet18", {}).activation_bytes(*shapes.T)
    by_area = COSTS["resnet18"].activation_bytes / 224**2 * shapes.prod(axis=1)
    assert by_area == pytest.approx(exact, rel=0.03)


def test_precision_and_techniques_keep_less() -> None:
    cost = COSTS["resnet18"]
    plain, half, recomputed, offloaded = (
        live_bytes(cost, config_of(**train).train)
        for train in (
            {},
            {"precision": "bf16-mixed"},
            {"torch": {"recompute": True}},
            {"torch": {"offload": "disk", "recompute": False}},
        )
    )
    assert plain == cost.live.kept and half == cost.live.half_kept
    assert (recomputed, offloaded) == (cost.live.recomputed, cost.live.offloaded)
    assert offloaded < recomputed < half < plain
    # Mixed precision casts the weights: two more bytes for each.
    both = (model_bytes(1000, config_of(precision=name).train) for name in ("fp32", "bf16-mixed"))
    assert tuple(both) == (16_000, 18_000)


def test_samples_that_do_not_fit_are_named_the_largest_first() -> None:
    over = samples_over(16 * GIB, np.array([1, 20, 15, 40, 17, 1, 1, 1], np.float64) * GIB)
    assert (over.indices, over.bytes) == ((3, 1, 4), (40 * GIB, 20 * GIB, 17 * GIB))
    assert over.share == 3 / 8
    assert over.text() == "3 of 8 samples (37.5 %) need more than 16 GiB each: 3 (40 GiB), 1 (20 GiB), 4 (17 GiB)"
    names = [f"{number}.jpg" for number in range(8)]
    assert "3.jpg (40 GiB), 1.jpg" in over.text(names)
    many = samples_over(1.0, np.full(100, 2.0))
    assert many.text() == "100 of 100 samples (100 %) need more than 1 B each: " + ", ".join(
        [*(f"{number} (2 B)" for number in range(5)), "and 95 more"]
    )
    assert samples_over(9.0, np.full(100, 2.0)).text() == "0 of 100 samples (0 %) need more than 9 B each"


def unlike_shapes(count: int = 200) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(3).integers(40, 400, (count, 2))


@pytest.mark.parametrize("batching", ["random", "nearest", "pixels", "singles"])
def test_the_largest_pass_is_that_of_the_batches_that_will_be_trained(batching: str) -> None:
    shapes = unlike_shapes()
    config = config_of(batching=batching, batch_size=8, steps=7)
    found = pass_sizes(config, shapes)
    counts = sample_counts(config.ensemble.bootstrap, len(shapes), config.seed, 0)
    loads = replica_epoch(config, counts, shapes, 0, 0, 0).part(slice(7)).loads
    assert loads is not None
    largest = int(loads.passes[:, 1:].prod(axis=1).max())
    assert found.largest_px == (largest, largest)  # all seven steps were looked at
    assert found.mean_sample_px == pytest.approx(loads.total_px.sum() / loads.samples.sum())
    longer = pass_sizes(config_of(batching=batching, batch_size=8, epochs=9), shapes)
    assert longer.largest_px[0] >= largest and longer.largest_px[1] == 1.5 * longer.largest_px[0]


ONE_CORE = Site(name="s", groups=(NodeGroup(slots=(Slot(cores=(0,)),)),))


def lines_for(
    shapes: np.ndarray[Any, np.dtype[np.int64]], *settings: str, site: Site = ONE_CORE, names: Sequence[str] = ()
) -> list[str]:
    """What planning says of a run with ResNet-18 on images of these shapes."""
    chosen = ("model=resnet18", "dataset=artworks", "data.input=hr", "train.steps=5", "train.precision=fp32", *settings)
    config, plan = make_plan(resolve_config([parse_setting(each) for each in chosen]), site)
    height, width = np.median(shapes, axis=0).astype(int).tolist()
    facts = DataFacts(len(shapes), 0, 10, (3, height, width))
    return list(estimate_lines(estimate_run(config, plan, site, facts, None, shapes, names), config, plan))


def test_a_run_whose_largest_batch_does_not_fit_says_so_before_it_runs() -> None:
    shapes = np.full((100, 2), 500)
    assert not any("memory" in line for line in lines_for(shapes, "train.batch_size=2")[2:])
    huge = np.where(np.arange(100)[:, None] % 2, [[500, 40_000]], [[40_000, 500]])
    (said,) = [line for line in lines_for(huge, "train.batch_size=8") if "will run out of memory" in line]
    assert said.endswith("Choose a smaller --set train.batch_size, or --set train.batching=pixels.")
    alone = lines_for(huge, "train.batch_size=8", "train.batching=singles")
    assert not any("will run out of memory" in line for line in alone)


def test_images_that_leave_batch_normalisation_one_value_are_named_before_training() -> None:
    shapes = np.full((9, 2), 500)
    shapes[[3, 5, 7]] = (32, 32), (20, 9), (33, 32)
    with pytest.raises(PlanError, match=r"3\.jpg \(32 × 32\), 5\.jpg \(20 × 9\)\. Leave.* smallest_side=33 "):
        check_features(config_of(), shapes, [f"{number}.jpg" for number in range(9)])
    together = config_of().train.model_copy(update={"batch_norm": "synchronised"})
    check_features(config_of().model_copy(update={"train": together}), shapes, ())  # other workers have values, too
    check_features(config_of(), shapes[[0, 7]], ())
    check_features(config_of(), None, ())


def test_samples_that_exceed_the_memory_of_a_slot_are_named() -> None:
    shapes = np.full((100, 2), 500)
    shapes[[7, 42]] = (6000, 7000), (7000, 8000)
    slots = NodeGroup(count=2, slots=(Slot(cores=(0,)),), memory_gib_per_slot=16)
    lines = lines_for(shapes, site=Site(name="s", groups=(slots,)))
    # 0.31 GiB of the process, 0.17 of the model, 445 bytes × 1.03 per pixel: 24.36 and 18.38 GiB.
    assert lines[-1].startswith("! 2 of 100 samples (2 %) need more than 16 GiB each: 42 (24.36 GiB), 7 (18.38 GiB)")
    limited = lines_for(shapes, "launch.memory_gib=20", names=[f"{number}.jpg" for number in range(100)])
    assert limited[-1].startswith("! 1 of 100 samples (1 %) need more than ")
    assert ": 42.jpg (24.36 GiB). Choose --set train.torch.recompute=true, " in limited[-1]
