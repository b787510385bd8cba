"""The bootstrap sampler keeps its promises, and epochs share its draws without overlap."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planned import planned_config
from trainmark.data.bootstrap import audit_counts, check_draws, read_counts, sample_counts, write_bootstraps
from trainmark.data.epochs import epoch_order, replica_batches, steps_per_epoch
from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import PlanError
from trainmark.spec.files import read_json
from trainmark.spec.run_folder import RunFolder


@pytest.mark.parametrize("method", ["poisson", "multinomial"])
def test_63_percent_of_the_samples_are_present(method: str) -> None:
    audit = audit_counts(sample_counts(method, 100_000, seed=3, member=0), method)
    assert audit["present_share"] == pytest.approx(0.632, abs=0.005)
    assert audit["as_expected"]


def test_poisson_counts_follow_poissons_law() -> None:
    counts = sample_counts("poisson", 200_000, seed=1, member=0)
    # P(k) = 1 / (e · k!): 0.3679, 0.3679, 0.1839, 0.0613
    shares = np.bincount(counts, minlength=4)[:4] / len(counts)
    assert shares == pytest.approx([0.3679, 0.3679, 0.1839, 0.0613], abs=0.004)


@given(num_samples=st.integers(1, 500), member=st.integers(0, 50))
def test_multinomial_draws_exactly_as_many_as_there_are_samples(num_samples: int, member: int) -> None:
    assert sample_counts("multinomial", num_samples, seed=1, member=member).sum() == num_samples


def test_none_takes_every_sample_once() -> None:
    counts = sample_counts("none", 10, seed=1, member=4)
    assert counts.tolist() == [1] * 10
    assert audit_counts(counts, "none")["as_expected"]


def test_an_audit_refuses_a_bootstrap_that_is_none() -> None:
    assert not audit_counts(np.ones(10_000, np.uint8), "poisson")["as_expected"]


def test_a_members_bootstrap_does_not_depend_on_the_size_of_the_ensemble(tmp_path: Path) -> None:
    small, large = RunFolder(tmp_path / "small"), RunFolder(tmp_path / "large")
    write_bootstraps(small, "poisson", 1000, seed=7, members=4)
    write_bootstraps(large, "poisson", 1000, seed=7, members=64)
    assert np.array_equal(read_counts(small, 3), read_counts(large, 3))
    assert not np.array_equal(read_counts(small, 3), read_counts(small, 2))


def test_the_audit_of_all_members_is_stored(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_bootstraps(folder, "poisson", 5000, seed=7, members=3)
    audit = read_json(folder.bootstrap_audit)
    assert [entry["member"] for entry in audit["members"]] == [0, 1, 2]
    assert all(abs(entry["present_share"] - 0.632) < 0.04 for entry in audit["members"])


def test_the_index_costs_one_byte_a_sample(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_bootstraps(folder, "poisson", 100_000, seed=7, members=1)
    assert folder.bootstrap_counts(0).stat().st_size < 100_000 + 200


def test_imagenets_size_times_64_members_takes_seconds(tmp_path: Path) -> None:
    start = time.process_time()
    write_bootstraps(RunFolder(tmp_path), "poisson", 1_281_167, seed=1, members=64)
    assert time.process_time() - start < 20


def recipe(batch_size: int, **settings: Any) -> TrainConfig:
    values = {"optimizer": "sgd", "learning_rate": 0.1, "reference_batch_size": 1, "schedule": "constant", **settings}
    return TrainConfig(epochs=1, batch_size=batch_size, **values)


@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    workers=st.integers(1, 5),
    batch=st.integers(1, 7),
    epoch=st.integers(0, 3),
)
def test_workers_share_an_epoch_without_overlap(counts: list[int], workers: int, batch: int, epoch: int) -> None:
    array = np.array(counts, np.uint8)
    order = epoch_order(array, seed=1, member=2, epoch=epoch)
    assert sorted(order.tolist()) == np.repeat(np.arange(len(counts)), counts).tolist()
    if len(order) < workers * batch:
        with pytest.raises(PlanError, match="samples per step"):
            steps_per_epoch(len(order), recipe(batch), workers)
        return
    parts = [replica_batches(order, rank, recipe(batch), workers) for rank in range(workers)]
    steps = len(order) // (workers * batch)
    assert all(part.shape == (steps, batch) for part in parts)
    # Step by step the workers' batches, side by side, are the epoch in order; only the remainder is left out.
    together = np.concatenate(parts, axis=1).reshape(-1)
    assert together.tolist() == order[: steps * workers * batch].tolist()
    assert len(order) - len(together) < workers * batch


def test_two_workers_see_the_global_batches_of_one_with_twice_the_batch() -> None:
    order = epoch_order(np.ones(100, np.uint8), seed=1, member=0, epoch=0)
    both = np.concatenate([replica_batches(order, rank, recipe(8), 2) for rank in (0, 1)], axis=1)
    assert np.array_equal(both, replica_batches(order, 0, recipe(16), 1))


def test_each_epoch_and_member_is_shuffled_differently() -> None:
    counts = np.ones(50, np.uint8)
    orders = {tuple(epoch_order(counts, 1, member, epoch)) for member in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_a_batch_that_some_bootstrap_cannot_fill_is_found_without_drawing_all_of_them() -> None:
    def check(batch: int, num_samples: int, members: int, method: str = "poisson") -> None:
        values = {"train": {"batch_size": batch}, "ensemble": {"bootstrap": method}}
        check_draws(planned_config(**values), num_samples, members, workers=2)

    check(50, num_samples=10**8, members=10**6)  # far fewer than there are: no bootstrap is drawn
    check(50, num_samples=100, members=10**6, method="multinomial")  # always as many draws as samples
    for method in ("poisson", "multinomial", "none"):
        with pytest.raises(PlanError, match="2 workers × batch size 51 = 102 samples per step, but"):
            check(51, num_samples=100, members=8, method=method)
    # Poisson(100) falls below 100 for one of eight members: P = 1 - 0.51^8.
    with pytest.raises(PlanError, match="2 workers × batch size 50 = 100 samples per step"):
        check(50, num_samples=100, members=8)
