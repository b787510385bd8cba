"""Every communication mode, in every communication precision, gives what arithmetic says, on 2 to 6 processes."""

import functools
import hashlib
import io
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.conftest import ROOT
from tests.mpirun import AS_ROOT, require_mpirun
from tests.waiting import TIMEOUT_S
from tests.worker_group import run_workers
from trainmark.machine.network import tcp_bytes_sent
from trainmark.spec.config import TrainConfig
from trainmark.spec.registries import COMMUNICATION, COMMUNICATION_PRECISIONS
from trainmark.train.torch.communication import averaged_gradients
from trainmark.train.torch.communication.averaged_gradients import AveragedGradients
from trainmark.train.torch.communication.team import Team
from trainmark.train.torch.protocols import Communicator, WorkerGroup

ALONE = WorkerGroup(0, ("node",), None, torch.device("cpu"))


def settings(mode: str = "allreduce", precision: str = "fp32", **others: Any) -> TrainConfig:
    """A recipe with that communication."""
    return TrainConfig(
        epochs=1,
        batch_size=1,
        optimizer="sgd",
        learning_rate=0.1,
        schedule="warmup-linear-scaling",
        reference_batch_size=1,
        communication=mode,
        communication_precision=precision,
        **others,
    )


def build(workers: WorkerGroup, config: TrainConfig) -> Communicator:
    communicator: Communicator = COMMUNICATION.load(config.communication)(workers, config)
    return communicator


def joins_gradients(mode: str) -> bool:
    """Or else it joins weights."""
    return isinstance(build(ALONE, settings(mode)), AveragedGradients)


ALL_CASES = list(itertools.product(COMMUNICATION, COMMUNICATION_PRECISIONS))


def can_send(mode: str, precision: str) -> bool:
    """Whether the plan lets the two go together."""
    return mode == "allreduce" or precision == "fp32" or (precision != "powersgd" and mode != "mpi")


CASES = [case for case in ALL_CASES if can_send(*case)]
GRADIENT_CASES = [case for case in CASES if joins_gradients(case[0])]
WEIGHT_CASES = [case for case in CASES if not joins_gradients(case[0])]
# The other formats keep nothing from one step to the next.
MEMORY_CASES = [case for case in GRADIENT_CASES if case[1] not in ("fp32", "fp16", "bf16")]
SIZES = (2, 4, 6)
SIZES_OVER_MPI = (2, 3, 4)  # each is an mpirun of its own, whose processes share no imports
SIZED_GRADIENT_CASES = [
    (size, *case) for case in GRADIENT_CASES for size in (SIZES_OVER_MPI if case[0] == "mpi" else SIZES)
]
SIZES_OF_TRAINING = (2, 4)
SIZES_OF_MEMORY = (2, 4)  # of what takes many steps: error feedback and going on from a state

# About 1.1 MB, so that headers do not count; odd sizes, and tensors smaller than the number of workers.
LARGE = ((300, 401), (7,), (401, 250), (3,), (16, 8, 3, 3), (199, 301))
# Small enough for low-rank factors to have sent every direction after some steps.
SMALL = ((20, 30), (5,), (24, 24))
CONSTANT_STEPS = 45


class Linear(nn.Module):
    """A model whose gradients are what it is called with."""

    def __init__(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros(shape) for shape in shapes)

    def forward(self, *gradients: Tensor) -> Tensor:
        """The loss."""
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def gradients_of(rank: int, step: int, shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    """Gradients that every process can compute for every other."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return [torch.randn(shape, generator=generator) * 10.0**-place for place, shape in enumerate(shapes)]


def flat(tensors: Iterator[Tensor] | list[Tensor]) -> Tensor:
    """All values in float64."""
    return torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors])


@functools.cache
def true_mean(size: int, step: int, shapes: tuple[tuple[int, ...], ...]) -> Tensor:
    """The mean gradient of a step over all workers, in float64."""
    return torch.stack([flat(gradients_of(rank, step, shapes)) for rank in range(size)]).mean(0)


@functools.cache
def largest_value(size: int, step: int, shapes: tuple[tuple[int, ...], ...]) -> float:
    """The largest absolute value of all workers' gradients of a step."""
    return max(flat(gradients_of(rank, step, shapes)).abs().max().item() for rank in range(size))


def fingerprint(values: Tensor) -> str:
    """Equal for equal bits."""
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


# What a process does. Each function gives plain values, which the tests at the end of the file judge.


def backward(shared: nn.Module, gradients: list[Tensor]) -> Tensor:
    """The joined gradients, as one vector."""
    shared.zero_grad(set_to_none=True)
    shared(*gradients).backward()
    return flat([parameter.grad for parameter in shared.parameters() if parameter.grad is not None])


def check_gradients(workers: WorkerGroup, config: TrainConfig) -> dict[str, Any]:
    """Error and bits of one step; bytes of a step."""
    shared = build(workers, config).wrap(Linear(LARGE))
    joined = backward(shared, gradients_of(workers.rank, 0, LARGE))
    true = true_mean(workers.size, 0, LARGE)
    largest = largest_value(workers.size, 0, LARGE)
    return {
        "first_bits": fingerprint(joined),
        "first_error": ((joined - true).abs().max() / largest).item(),
        "bytes": count_bytes(workers, shared),
    }


def check_memory(workers: WorkerGroup, config: TrainConfig) -> dict[str, Any]:
    """Errors of the means over steps, and whether going on from a state is exact."""
    return {"mean_errors": errors_of_means(workers, config), "continuation": continue_from_state(workers, config)}


def count_bytes(workers: WorkerGroup, shared: nn.Module, steps: int = 2) -> int:
    """Bytes that this process sends in a step, once compression has begun."""
    gradients = gradients_of(workers.rank, 0, LARGE)
    for _ in range(2):
        backward(shared, gradients)
    dist.barrier()
    before = tcp_bytes_sent()
    for _ in range(steps):
        backward(shared, gradients)
    dist.barrier()
    after = tcp_bytes_sent()
    assert before is not None and after is not None
    return (after - before) // steps


def errors_of_means(workers: WorkerGroup, config: TrainConfig) -> list[float]:
    """After each step with the same gradients: the error of the mean of what came, as a share of the largest."""
    shared = build(workers, config).wrap(Linear(SMALL))
    gradients, true = gradients_of(workers.rank, 0, SMALL), true_mean(workers.size, 0, SMALL)
    largest = largest_value(workers.size, 0, SMALL)
    total, errors = torch.zeros_like(true), []
    for step in range(1, CONSTANT_STEPS + 1):
        total += backward(shared, gradients)
        errors.append(((total / step - true).abs().max() / largest).item())
    return errors


def continue_from_state(workers: WorkerGroup, config: TrainConfig) -> tuple[str, str]:
    """Bits of the steps after the fourth: of a run that goes on, and of one that starts from its stored state."""
    first = build(workers, config)
    shared = first.wrap(Linear(LARGE))
    for step in range(4):
        backward(shared, gradients_of(workers.rank, step, LARGE))
    stored = io.BytesIO()
    torch.save(first.state(), stored)
    stored.seek(0)
    resumed = build(workers, config)
    shared_again = resumed.wrap(Linear(LARGE))
    resumed.load(torch.load(stored, weights_only=True))
    bits = []
    for model in (shared, shared_again):
        parts = [backward(model, gradients_of(workers.rank, step, LARGE)) for step in (4, 5)]
        bits.append(fingerprint(torch.cat(parts)))
    return bits[0], bits[1]


def check_training(workers: WorkerGroup, config: TrainConfig) -> dict[str, Any]:
    """Distance from the minimum of a convex problem after training, and bits of the weights that all should share."""
    communicator, model = build(workers, config), Linear(SMALL)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(workers.rank)  # differs: the first worker's count
    shared = communicator.wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    bits, staleness, facts = [], [], {}
    for step in range(90):
        optimizer.zero_grad()
        # All have the same minimum, and each its own curvature.
        targets = zip(model.parameters(), gradients_of(0, 0, SMALL), strict=True)
        shared(*((1 + workers.rank / 2) * (weight.detach() - target) for weight, target in targets)).backward()
        communicator.update(optimizer, optimizer.step)
        if step % 30 == 29:
            time.sleep(0.01 * workers.rank)
            communicator.sync_weights()
            bits.append(fingerprint(flat(model.parameters())))
            facts = communicator.facts()
            staleness += facts.get("staleness", [])
    distance = flat(model.parameters()) - flat(gradients_of(0, 0, SMALL))
    return {"bits": bits, "distance": distance.abs().max().item(), "staleness": staleness, "facts": facts}


def check_overlap(workers: WorkerGroup) -> bool:
    """Whether a bucket's exchange can end after a later part of backward, which it is made to wait for."""
    later, seen, swap = threading.Event(), [], Team.exchange

    def waiting_swap(*arguments: Any) -> None:
        seen.append(later.wait(20))
        swap(*arguments)

    model = Linear(LARGE)
    shared = build(workers, settings("ring")).wrap(model)
    # Gradients come from the last parameter to the first; the buckets before the last are full by then.
    model.weights[0].register_hook(lambda _: later.set())
    Team.exchange = waiting_swap  # type: ignore[method-assign]
    backward(shared, gradients_of(workers.rank, 0, LARGE))
    Team.exchange = swap  # type: ignore[method-assign]
    return len(seen) >= 4 and all(seen)


def check_waiting(workers: WorkerGroup) -> list[float]:
    """Waiting times of a step whose messages take 0.1 s each, and of no step."""
    swap = Team.exchange

    def slow_swap(*arguments: Any) -> None:
        time.sleep(0.1)
        swap(*arguments)

    communicator = build(workers, settings("ring"))
    shared = communicator.wrap(Linear(SMALL))
    Team.exchange = slow_swap  # type: ignore[method-assign]
    backward(shared, gradients_of(workers.rank, 0, SMALL))
    Team.exchange = swap  # type: ignore[method-assign]
    return [communicator.facts()["waited_s"], communicator.facts()["waited_s"]]


def rate_of(step: int) -> float:
    return 0.1 / (1 + step)


def check_turns(workers: WorkerGroup) -> dict[str, Any]:
    """Weights of a parameter server whose workers push in turns, 0 before 1, each by the weights that it has."""
    communicator, model = build(workers, settings("parameter-server")), Linear(SMALL)
    shared = communicator.wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9, weight_decay=0.01)
    for step in range(5):
        for turn in range(workers.size):
            if turn == workers.rank:
                optimizer.param_groups[0]["lr"] = rate_of(step) if workers.rank == 0 else 7.0
                targets = gradients_of(workers.rank, step, SMALL)
                backward(shared, [w.detach() - t for w, t in zip(model.parameters(), targets, strict=True)])
                communicator.update(optimizer, optimizer.step)
            dist.barrier()
    communicator.sync_weights()
    momentum = (
        [optimizer.state[weight]["momentum_buffer"] for weight in model.parameters()] if workers.rank == 0 else []
    )
    return {
        "weights": flat(model.parameters()),
        "momentum": flat(momentum) if momentum else None,
        "staleness": communicator.facts().get("staleness"),
    }


def check_averages(workers: WorkerGroup, every: int, precision: str) -> Tensor:
    """Weights after 7 steps of local SGD and a settling."""
    communicator, model = build(workers, settings("local-sgd", precision, averaging_steps=every)), Linear(SMALL)
    shared = communicator.wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(7):
        targets = gradients_of(workers.rank, step, SMALL)
        backward(shared, [w.detach() - t for w, t in zip(model.parameters(), targets, strict=True)])
        communicator.update(optimizer, optimizer.step)
    communicator.sync_weights()
    return flat(model.parameters())


def check_replicas(workers: WorkerGroup) -> list[float]:
    """Errors of two halves of the workers that each join gradients among themselves, in every synchronous mode."""
    half = workers.size // 2
    groups = [dist.new_group(range(half)), dist.new_group(range(half, workers.size))]
    mine = workers.rank // half
    part = WorkerGroup(workers.rank % half, workers.nodes[:half], groups[mine], workers.device)
    errors = []
    for mode, precision in (("allreduce", "fp32"), ("allreduce", "int8"), ("ring", "fp32"), ("torus-2d", "fp32")):
        shared = build(part, settings(mode, precision)).wrap(Linear(SMALL))
        ranks = range(mine * half, (mine + 1) * half)
        true = torch.stack([flat(gradients_of(rank, 0, SMALL)) for rank in ranks]).mean(0)
        errors.append((backward(shared, gradients_of(workers.rank, 0, SMALL)) - true).abs().max().item())
    return errors


def work(rank: int, size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    averaged_gradients.BUCKET_MIB = 0.3  # several buckets
    # Nodes of unequal sizes, whose ranks are not in a row.
    nodes = tuple("aabbabbb"[:size])
    workers = WorkerGroup(rank, nodes, dist.group.WORLD, torch.device("cpu"))
    found: dict[Any, Any] = {}
    for mode, precision in CASES:
        if mode == "mpi":
            continue  # see `work_over_mpi`
        config = settings(mode, precision, averaging_steps=2)
        if (mode, precision) in GRADIENT_CASES:
            found[mode, precision] = check_gradients(workers, config)
            if size in SIZES_OF_MEMORY and (mode, precision) in MEMORY_CASES:
                found[mode, precision] |= check_memory(workers, config)
        elif size in SIZES_OF_TRAINING:
            found[mode, precision] = check_training(workers, config)
    if size == 2:
        found["overlap"], found["waited_s"], found["turns"] = (
            check_overlap(workers),
            check_waiting(workers),
            check_turns(workers),
        )
    if size == 4:
        found["replicas"] = check_replicas(workers)
        for every, precision in ((1, "fp32"), (3, "fp32"), (3, "int8")):
            found["averages", every, precision] = check_averages(workers, every, precision)
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def work_over_mpi(folder: Path) -> None:
    """What a process does that mpirun has started."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    averaged_gradients.BUCKET_MIB = 0.3  # several buckets
    workers = WorkerGroup(rank, ("node",) * size, dist.group.WORLD, torch.device("cpu"))
    found = {("mpi", "fp32"): check_gradients(workers, settings("mpi"))}
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


# What the processes found, judged.


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[dict[Any, Any]]]:
    """What each process of a size found; a size's processes run once, when first asked for."""
    kept: dict[int, list[dict[Any, Any]]] = {}

    def find(size: int) -> list[dict[Any, Any]]:
        if size not in kept:
            folder = tmp_path_factory.mktemp(f"workers-{size}")
            run_workers(work, (size, folder), size)
            kept[size] = [torch.load(folder / f"{rank}.pt") for rank in range(size)]
        return kept[size]

    return find


@pytest.fixture(scope="module")
def found_over_mpi(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[dict[Any, Any]]]:
    """What each process of an mpirun of a size found; each runs once, when first asked for."""

    @functools.cache
    def find(size: int) -> list[dict[Any, Any]]:
        folder = tmp_path_factory.mktemp(f"mpi-{size}")
        hosts = ["--host", f"localhost:{size}", "--bind-to", "none"]
        command = [require_mpirun(), *hosts, "-np", str(size), sys.executable, "-m", __name__, str(folder)]
        variables = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **AS_ROOT}
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [torch.load(folder / f"{rank}.pt") for rank in range(size)]

    return find


def of_case(found: Any, size: int, mode: str, precision: str) -> list[dict[str, Any]]:
    """What each process found in that case."""
    return [process[mode, precision] for process in found(size)]


def tolerance_of(precision: str) -> float:
    return float(COMMUNICATION_PRECISIONS.load(precision)(settings()).tolerance)


@pytest.mark.parametrize(("mode", "precision"), sorted(set(ALL_CASES) - set(CASES)))
def test_a_mode_refuses_what_it_cannot_send(mode: str, precision: str) -> None:
    """The words for users are the plan's: tests/unit/test_compatible.py."""
    with pytest.raises(AssertionError, match="checked by the plan"):
        build(ALONE, settings(mode, precision))


@pytest.mark.parametrize(("size", "mode", "precision"), SIZED_GRADIENT_CASES)
def test_joined_gradients_are_the_mean_over_all_workers(
    found: Any, found_over_mpi: Any, size: int, mode: str, precision: str
) -> None:
    results = of_case(found_over_mpi if mode == "mpi" else found, size, mode, precision)
    assert len({result["first_bits"] for result in results}) == 1
    # On its way a value is written at most P times, and once more as a mean; no partial mean exceeds the largest.
    # Low-rank factors begin with the third step.
    expected = 1e-6 if precision in ("fp32", "powersgd") else (size + 1) * tolerance_of(precision)
    assert results[0]["first_error"] <= expected
    if precision in ("fp16", "bf16", "int8"):
        assert results[0]["first_error"] > 1e-6  # it was compressed


def test_two_workers_have_the_same_gradients_over_mpi_and_over_gloo_bit_by_bit(found: Any, found_over_mpi: Any) -> None:
    over_mpi = of_case(found_over_mpi, 2, "mpi", "fp32")
    over_gloo = of_case(found, 2, "allreduce", "fp32")
    assert {result["first_bits"] for result in over_mpi} == {result["first_bits"] for result in over_gloo}


@pytest.mark.parametrize("size", SIZES_OF_MEMORY)
@pytest.mark.parametrize(("mode", "precision"), MEMORY_CASES)
def test_what_compression_loses_comes_later(found: Any, size: int, mode: str, precision: str) -> None:
    results = of_case(found, size, mode, precision)
    errors = results[0]["mean_errors"]
    if precision == "powersgd":
        # The error that is still to come stays bounded, so its share of the mean falls as 1/steps.
        assert errors[-1] < 0.5 * errors[14] and errors[-1] < 0.1
    else:
        # The sum lacks only what the last step lost: at most a step's error, over all steps.
        assert errors[-1] <= 1.1 * (size + 1) * tolerance_of(precision) / CONSTANT_STEPS


def expected_values_sent(mode: str, size: int, values: int) -> float:
    """Values that all workers together send in a step."""
    if mode == "hierarchical":
        groups = len(set("aabbabbb"[:size]))
        # Followers send to leaders and leaders to followers; leaders all-reduce.
        return 2 * (size - groups) * values + 2 * (groups - 1) * values
    # 2·(P − 1)/P each; for X × Y workers 2·[(X − 1)/X + (Y − 1)/(X·Y)] is the same.
    return 2 * (size - 1) * values


@pytest.mark.skipif(tcp_bytes_sent() is None, reason="this kernel does not count bytes per socket")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("mode", "precision"),
    [case for case in GRADIENT_CASES if case[0] in ("allreduce", "ring", "hierarchical", "torus-2d")],
)
def test_the_kernel_sees_as_many_bytes_as_arithmetic_says(found: Any, size: int, mode: str, precision: str) -> None:
    sent = sum(result["bytes"] for result in of_case(found, size, mode, precision))
    values = sum(torch.Size(shape).numel() for shape in LARGE)
    whole = 4 * expected_values_sent(mode, size, values)
    share = {"fp32": 1.0, "fp16": 0.5, "bf16": 0.5, "int8": 0.25}
    if precision in share:
        assert sent / whole == pytest.approx(share[precision], rel=0.05)
    elif precision == "powersgd":
        assert sent / whole < 0.05


@pytest.mark.parametrize("size", SIZES_OF_MEMORY)
@pytest.mark.parametrize(("mode", "precision"), MEMORY_CASES)
def test_a_stored_state_continues_bit_by_bit(found: Any, size: int, mode: str, precision: str) -> None:
    for result in of_case(found, size, mode, precision):
        went_on, resumed = result["continuation"]
        assert went_on == resumed


@pytest.mark.parametrize("size", SIZES_OF_TRAINING)
@pytest.mark.parametrize(("mode", "precision"), WEIGHT_CASES)
def test_training_reaches_the_common_minimum_with_equal_weights(
    found: Any, size: int, mode: str, precision: str
) -> None:
    results = of_case(found, size, mode, precision)
    for settled in zip(*(result["bits"] for result in results), strict=True):
        assert len(set(settled)) == 1
    assert all(result["facts"]["waited_s"] >= 0 for result in results)
    # It started about 4 away. 90 steps at rate 0.05 of at least this curvature leave 0.95^90 = 1 % of that, at most.
    assert results[0]["distance"] < 0.04


@pytest.mark.parametrize("size", SIZES_OF_TRAINING)
@pytest.mark.parametrize("precision", [precision for mode, precision in CASES if mode == "parameter-server"])
def test_a_parameter_server_applies_every_push(found: Any, size: int, precision: str) -> None:
    results = of_case(found, size, "parameter-server", precision)
    assert len(results[0]["staleness"]) == 90 * size
    assert min(results[0]["staleness"]) >= 0
    assert max(results[0]["staleness"]) > 0
    assert all("staleness" not in result["facts"] for result in results[1:])


def test_pushes_in_turns_are_steps_of_momentum_sgd_with_delayed_weights(found: Any) -> None:
    one, other = (process["turns"] for process in found(2))
    weights, velocity = torch.zeros_like(one["weights"]), torch.zeros_like(one["weights"])
    held = [weights, weights]
    for step in range(5):
        for rank in range(2):
            gradient = held[rank] - flat(gradients_of(rank, step, SMALL)) + 0.01 * weights
            velocity = 0.9 * velocity + gradient
            weights = weights - rate_of(step) * velocity
            held[rank] = weights
    assert (one["weights"] - weights).abs().max() < 1e-5
    assert (one["momentum"] - velocity).abs().max() < 1e-5
    assert torch.equal(one["weights"], other["weights"])
    # Each worker has missed the other's last push; the very first push has missed none.
    assert one["staleness"] == [0] + 9 * [1]


@pytest.mark.parametrize(("every", "precision", "most"), [(1, "fp32", 1e-6), (3, "fp32", 1e-6), (3, "int8", 0.05)])
def test_local_sgd_averages_what_its_workers_learnt(found: Any, every: int, precision: str, most: float) -> None:
    held = [torch.zeros_like(true_mean(1, 0, SMALL)) for _ in range(4)]
    for step in range(7):
        held = [w - 0.1 * (w - flat(gradients_of(rank, step, SMALL))) for rank, w in enumerate(held)]
        if (step + 1) % every == 0:
            held = 4 * [torch.stack(held).mean(0)]
    expected = torch.stack(held).mean(0)
    if every == 1:  # the same as data parallelism
        weights = torch.zeros_like(expected)
        for step in range(7):
            weights = weights - 0.1 * (weights - true_mean(4, step, SMALL))
        assert (weights - expected).abs().max() < 1e-12
    for process in found(4):
        assert (process["averages", every, precision] - expected).abs().max() < most


def test_groups_of_replicas_do_not_disturb_each_other(found: Any) -> None:
    for process in found(4):
        plain, coarse, ring, torus = process["replicas"]
        assert max(plain, ring, torus) < 1e-5 and 1e-5 < coarse < 0.1


def test_backward_goes_on_while_a_bucket_is_exchanged(found: Any) -> None:
    assert all(process["overlap"] for process in found(2))


def test_waiting_is_what_messages_add_to_backward(found: Any) -> None:
    for process in found(2):
        of_step, of_none = process["waited_s"]
        assert 0.19 < of_step < 2.0  # two hops of 0.1 s, after a backward pass of far less
        assert of_none == 0.0


@pytest.mark.parametrize("mode", COMMUNICATION)
def test_a_worker_alone_takes_plain_steps(mode: str) -> None:
    communicator = build(ALONE, settings(mode))
    model, plain = Linear(SMALL), Linear(SMALL)
    shared = communicator.wrap(model)
    assert shared is model
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1) for m in (model, plain)]
    for step in range(4):
        for each in (model, plain):
            backward(each, gradients_of(0, step, SMALL))
        communicator.update(optimizers[0], optimizers[0].step)
        optimizers[1].step()
        if step % 2:
            communicator.sync_weights()
    assert (flat(model.parameters()) - flat(plain.parameters())).abs().max() < 1e-7
    communicator.load(communicator.state())
    if mode == "allreduce":
        assert communicator.facts() == {}


if __name__ == "__main__":
    work_over_mpi(Path(sys.argv[1]))
