"""What each replica trains in an epoch of unlike images: all draws, in equally many passes, weighted by samples."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trainmark.data.epochs import ReplicaEpoch, replica_epoch, steps_of_member
from trainmark.plan.make import make_plan
from trainmark.plan.resolve import parse_setting, resolve_config
from trainmark.spec.config import RunConfig
from trainmark.spec.registries import BATCHINGS
from trainmark.spec.site import NodeGroup, Site, Slot

SITE = Site(name="four", groups=(NodeGroup(slots=tuple(Slot(cores=(core,)) for core in range(4))),))
RANDOM = np.random.default_rng(7)
SHAPES: NDArray[np.int64] = RANDOM.integers(20, 200, (61, 2))
COUNTS: NDArray[np.uint8] = RANDOM.poisson(1.0, 61).astype(np.uint8)


def config_of(batching: str, workers: int, accumulation: int = 1) -> RunConfig:
    chosen = (
        *("workload=artworks", "ensemble.members=1", f"ensemble.workers={workers}", "train.batch_size=4"),
        *(f"train.batching={batching}", f"train.accumulation={accumulation}", "train.batching_window=16"),
    )
    return make_plan(resolve_config([parse_setting(text) for text in chosen]), SITE)[0]


def epochs_of(config: RunConfig, epoch: int = 0) -> list[ReplicaEpoch]:
    return [replica_epoch(config, COUNTS, SHAPES, 0, epoch, replica) for replica in range(config.ensemble.workers)]


@pytest.mark.parametrize("batching", list(BATCHINGS))
@pytest.mark.parametrize(("workers", "accumulation"), [(1, 1), (2, 1), (3, 2), (4, 1)])
def test_replicas_make_equally_many_passes_and_their_weights_are_those_of_the_samples(
    batching: str, workers: int, accumulation: int
) -> None:
    config = config_of(batching, workers, accumulation)
    for epoch in (0, 1):
        replicas = epochs_of(config, epoch)
        assert {len(each) for each in replicas} == {steps_of_member(config, COUNTS, SHAPES, 0)}
        trained: Counter[int] = Counter()
        for step in range(len(replicas[0])):
            passes = [each.passes[step] for each in replicas if each.passes is not None]
            assert len({len(of_replica) for of_replica in passes}) == 1  # else collectives would wait for ever
            assert np.mean([sum(weight for _, weight in of_replica) for of_replica in passes]) == pytest.approx(1)
            for replica, of_replica in zip(replicas, passes, strict=True):
                places = np.cumsum([0, *(samples for samples, _ in of_replica)])
                for start, stop, (_, weight) in zip(places, places[1:], of_replica, strict=False):
                    trained.update(replica.rows[step][start:stop].tolist() if weight else [])
        assert trained == Counter(dict(enumerate(COUNTS.tolist()))) - Counter()


BASE = config_of("random", 1)
sides = st.integers(1, 400)
draws = st.lists(st.tuples(sides, sides, st.integers(0, 3)), min_size=1, max_size=40)  # height, width, how often


def changed(workers: int, **train: int | str) -> RunConfig:
    ensemble = BASE.ensemble.model_copy(update={"workers": workers, "system_scale": workers})
    return BASE.model_copy(update={"ensemble": ensemble, "train": BASE.train.model_copy(update=train)})


def trained_in(replicas: list[ReplicaEpoch], step: int) -> list[list[int]]:
    """The samples of each pass of a step that counts, of all replicas."""
    found = []
    for replica in replicas:
        assert replica.passes is not None
        ends = np.cumsum([samples for samples, _ in replica.passes[step]])
        parts = np.split(replica.rows[step], ends[:-1])
        weights = [weight for _, weight in replica.passes[step]]
        found += [part.tolist() for part, weight in zip(parts, weights, strict=True) if weight]
    return found


@pytest.mark.parametrize("batching", list(BATCHINGS))
@given(
    drawn=draws.filter(lambda drawn: any(times for _, _, times in drawn)),
    layout=st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 6)),
    budget=st.integers(1, 500_000),
    epoch=st.integers(0, 2),
)
@settings(max_examples=25, deadline=None)
def test_any_draws_on_any_workers_are_trained_as_often_as_asked_within_budgets(
    batching: str, drawn: list[tuple[int, int, int]], layout: tuple[int, int, int], budget: int, epoch: int
) -> None:
    workers, accumulation, batch_size = layout
    of_pixels = {"batch_pixels": budget} if batching == "pixels" else {}
    config = changed(workers, batching=batching, accumulation=accumulation, batch_size=batch_size, **of_pixels)
    shapes = np.array([(height, width) for height, width, _ in drawn])
    counts = np.array([times for _, _, times in drawn], np.uint8)
    replicas = [replica_epoch(config, counts, shapes, 0, epoch, replica) for replica in range(workers)]
    steps = len(replicas[0])
    assert {len(each) for each in replicas} == {steps} == {steps_of_member(config, counts, shapes, 0)}
    trained: Counter[int] = Counter()
    for step in range(steps):
        passes = trained_in(replicas, step)
        trained.update(index for each in passes for index in each)
        for each in passes:
            area = len(each) * int(shapes[each].max(axis=0).prod())
            limit = {"pixels": area <= budget, "singles": False}.get(batching, len(each) <= batch_size)
            assert limit or len(each) == 1
    assert trained == Counter(dict(enumerate(counts.tolist()))) - Counter()
    again = replica_epoch(config, counts, shapes, 0, epoch, workers - 1)
    assert [row.tolist() for row in again.rows] == [row.tolist() for row in replicas[-1].rows]
    middle = steps // 2  # where a resumed rank goes on
    rest = again.part(slice(middle, steps))
    assert [row.tolist() for row in rest.rows] == [row.tolist() for row in replicas[-1].rows[middle:]]
    assert again.passes is not None and rest.passes == again.passes[middle:]


def test_another_seed_epoch_or_member_has_another_order() -> None:
    for batching in BATCHINGS:
        config = config_of(batching, 1)
        orders = [
            replica_epoch(chosen, COUNTS, SHAPES, member, epoch, 0).rows
            for chosen, member, epoch in (
                (config, 0, 0),
                (config, 0, 1),
                (config, 1, 0),
                (config.model_copy(update={"seed": 2}), 0, 0),
            )
        ]
        assert len({tuple(np.concatenate(rows).tolist()) for rows in orders}) == 4, batching


def test_the_rest_of_an_epoch_is_what_the_whole_one_has_there() -> None:
    (whole,) = epochs_of(config_of("nearest", 1))
    rest = whole.part(slice(5, len(whole)))
    assert [row.tolist() for row in rest.rows] == [row.tolist() for row in whole.rows[5:]]
    assert whole.passes is not None and rest.passes == whole.passes[5:]
    assert whole.loads is not None and rest.loads is not None
    assert rest.loads.total_px.tolist() == whole.loads.total_px[5:].tolist()
    assert rest.loads.passes[:, 0].min() == 0
    assert rest.num_samples(2, batch=4) == whole.loads.samples[5:7].sum()


def test_pixels_of_a_step_are_those_of_its_images_and_of_the_largest_height_and_width() -> None:
    shapes = np.array([(2, 3), (4, 1), (1, 1), (5, 5)])
    epoch = replica_epoch(config_of("random", 1), np.ones(4, np.uint8), shapes, 0, 0, 0)
    assert epoch.loads is not None
    assert epoch.loads.samples.tolist() == [4]
    assert epoch.loads.informative_px.tolist() == [6 + 4 + 1 + 25]
    assert epoch.loads.total_px.tolist() == [4 * 5 * 5]
    assert epoch.loads.passes.tolist() == [[0, 4, 5, 5]]
