"""Every parallel mode: the same losses and weights as one process, and a saved state goes on bit-identically."""

import copy
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from tests.worker_group import run_workers
from trainmark.spec.config import TrainConfig
from trainmark.spec.layout import SPLITTING, ParallelLayout, layout_of
from trainmark.spec.registries import COMMUNICATION, OPTIMIZERS, PARALLEL, PRECISIONS, TASKS
from trainmark.train.torch.build import set_batch_norm_momentum
from trainmark.train.torch.collectives import sync_overflow
from trainmark.train.torch.parallel.batch_norm import synchronise
from trainmark.train.torch.protocols import Arithmetic, Parallelism, Parts, Pass, WorkerGroup
from trainmark.workloads.find import find_card

STEPS, STEPS_BEFORE_SAVING = 3, 2
SHAPE, CLASSES = (3, 16, 16), 5
CPU = torch.device("cpu")


class Case(NamedTuple):
    """One way to train: `workers` and `stages` of them a pipeline."""

    mode: str
    workers: int
    stages: int
    model: str
    accumulation: int = 1
    batch_norm: str = "worker"
    precision: str = "fp32"

    @property
    def settings(self) -> TrainConfig:
        return TrainConfig.model_validate(
            {
                "epochs": 1,
                "batch_size": 8,
                "accumulation": self.accumulation,
                "batch_norm": self.batch_norm,
                "optimizer": "sgd",
                "learning_rate": 0.05,
                "weight_decay": 0.01,
                "schedule": "",
                "reference_batch_size": 1,
                "parallel": self.mode,
                "stages": self.stages if self.mode in SPLITTING else None,
                "micro_batches": 4,
                "torch": {"memory_format": "contiguous"},
            }
        )

    @property
    def layout(self) -> ParallelLayout:
        return layout_of(self.settings, self.workers)

    @property
    def passes(self) -> int:
        """Parts of a replica's samples that go through the layers together."""
        return self.accumulation * (4 if self.mode in ("gpipe", "1f1b") else 1)


def shapes_of(workers: int) -> list[tuple[str, int]]:
    """Each mode with the stages to try it with."""
    return [(mode, stages) for mode in PARALLEL for stages in ((2, 4)[: workers // 2] if mode in SPLITTING else (1,))]


def cases(workers: int) -> list[Case]:
    """What a group of so many workers trains."""
    return [
        *(Case(mode, workers, stages, "plain") for mode, stages in shapes_of(workers)),
        *(Case(mode, workers, stages, "resnet-tiny", accumulation=2) for mode, stages in shapes_of(workers)),
        *(
            Case(mode, workers, 2, "resnet-tiny", batch_norm="synchronised")
            for mode in PARALLEL
            if workers == 4 or mode not in SPLITTING
        ),
        *(
            Case(mode, workers, 2, "resnet-tiny", precision=precision)
            for mode in PARALLEL
            for precision in ("bf16-mixed", "fp16-mixed", "fp16")
            if workers == 2 and (mode, precision) not in REFUSED
        ),
    ]


# FSDP gathers the weights of a layer together, which must then have one number format; batch normalisation has another.
REFUSED = {("sharded", "fp16")}


EVERY_CASE = [case for workers in (2, 4) for case in cases(workers)]


def plain_model() -> nn.Module:
    """Five layers with weights, and no batch normalisation: samples do not see each other."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 8, 3),
        nn.Tanh(),
        nn.Conv2d(8, 6, 3),
        nn.Flatten(),
        nn.Linear(54, 10),
        nn.Tanh(),
        nn.Linear(10, CLASSES),
    )


def build_model(case: Case, arithmetic: Arithmetic, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    if case.model == "plain":
        return plain_model()
    model: nn.Module = find_card(case.model).build("torch", {"num_classes": CLASSES, "width": 4})
    return arithmetic.convert(model)


def arithmetic_of(case: Case) -> Arithmetic:
    arithmetic: Arithmetic = PRECISIONS.load(case.precision)(CPU, case.settings)
    return arithmetic


def step_with(arithmetic: Arithmetic, optimizer: torch.optim.Optimizer) -> None:
    if arithmetic.scaler:
        arithmetic.scaler.step(optimizer)
        arithmetic.scaler.update()
    else:
        optimizer.step()


def samples_of(case: Case, step: int) -> tuple[Tensor, Tensor]:
    """The global batch of a step."""
    count = case.layout.replicas * case.settings.batch_size * case.accumulation
    generator = torch.Generator().manual_seed(1000 + step)
    inputs = torch.randn(count, *SHAPE, generator=generator)
    return inputs, torch.randint(CLASSES, (count,), generator=generator)


# What runs in each worker


def parts_of(case: Case, groups: dict[tuple[int, ...], dist.ProcessGroup]) -> Parts:
    rank, layout = dist.get_rank(), case.layout
    alike = tuple(range(layout.stage_of(rank), case.workers, layout.stages))
    everyone = WorkerGroup(rank, ("here",) * case.workers, dist.group.WORLD, CPU)
    replicas = WorkerGroup(layout.replica_of(rank), ("here",) * layout.replicas, groups.get(alike), CPU)
    return assemble(case, everyone, replicas)


def assemble(case: Case, workers: WorkerGroup, replicas: WorkerGroup) -> Parts:
    arithmetic = arithmetic_of(case)
    return Parts(
        settings=case.settings,
        layout=case.layout,
        workers=workers,
        replicas=replicas,
        task=TASKS.load("classification"),
        arithmetic=arithmetic,
        communicator=COMMUNICATION.load("allreduce")(replicas, case.settings),
        sample_shape=SHAPE,
        build_model=lambda: build_model(case, arithmetic, seed=99),
    )


def passes_of(case: Case, inputs: Tensor, targets: Tensor) -> list[Pass]:
    parts = zip(inputs.chunk(case.accumulation), targets.chunk(case.accumulation), strict=True)
    return [Pass(*samples, divisor=case.accumulation) for samples in parts]


class Run:
    """A worker's part of a case."""

    def __init__(self, case: Case, parts: Parts, seed: int) -> None:
        self.case, self.parts = case, parts
        self.trained: Parallelism = PARALLEL.load(case.mode)(build_model(case, parts.arithmetic, seed), parts)
        self.optimizer = OPTIMIZERS.load("sgd")(self.trained.parameters(), case.settings)

    def steps(self, first: int, stop: int) -> list[float]:
        """The losses of some steps."""
        replica, losses = self.parts.replicas.rank, []
        for step in range(first, stop):
            inputs, targets = (part.chunk(self.case.layout.replicas)[replica] for part in samples_of(self.case, step))
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(self.trained.forward_backward(passes_of(self.case, inputs, targets)).item())
            step_with(self.parts.arithmetic, self.optimizer)
        return losses

    def weights(self) -> dict[str, Tensor]:
        whole = self.trained.whole_model()
        whole.eval()
        return {name: value.detach().clone().contiguous() for name, value in whole.state_dict().items()}


def run_case(case: Case, groups: Any) -> dict[str, Any]:
    straight = Run(case, parts_of(case, groups), seed=1)
    losses = straight.steps(0, STEPS_BEFORE_SAVING)
    saved = io.BytesIO()
    torch.save(straight.trained.state(straight.optimizer), saved)
    saved.seek(0)
    losses += straight.steps(STEPS_BEFORE_SAVING, STEPS)
    resumed = Run(case, parts_of(case, groups), seed=2)
    resumed.trained.load(torch.load(saved, weights_only=True), resumed.optimizer)
    return {
        "losses": losses,
        "facts": straight.trained.facts(),
        "weights": straight.weights(),
        "losses_resumed": resumed.steps(STEPS_BEFORE_SAVING, STEPS),
        "weights_resumed": resumed.weights(),
        "num_parameters": sum(
            (weight.to_local() if hasattr(weight, "to_local") else weight).numel()
            for weight in straight.trained.parameters()
        ),
    }


def normalised(workers: int) -> dict[str, Tensor]:
    """What synchronised batch normalisation gives a worker for its samples, in float64."""
    rank = dist.get_rank()
    local = normalising_model()
    weights = torch.load(io.BytesIO(normalisation_weights()), weights_only=True)
    local.load_state_dict(weights)
    model = synchronise(local, WorkerGroup(rank, ("here",) * workers, dist.group.WORLD, CPU))
    inputs = normalisation_inputs(workers).chunk(workers)[rank].requires_grad_()
    outputs = model(inputs)
    (outputs**3).sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    for gradient in gradients.values():
        dist.all_reduce(gradient)
    assert inputs.grad is not None
    gradients = {f"of {name}": gradient for name, gradient in gradients.items()}
    return {"outputs": outputs.detach(), "of inputs": inputs.grad, **gradients, **model.state_dict()}


def normalising_model() -> nn.Sequential:
    """Two batch normalisations, of which a batch counts a quarter in the running statistics."""
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False)).double()
    set_batch_norm_momentum(model, 0.25)
    return model


def normalisation_weights() -> bytes:
    torch.manual_seed(5)
    model = normalising_model()
    nn.init.uniform_(model[0].weight)  # type: ignore[arg-type]
    nn.init.uniform_(model[0].bias)  # type: ignore[arg-type]
    kept = io.BytesIO()
    torch.save(model.state_dict(), kept)
    return kept.getvalue()


def normalisation_inputs(workers: int) -> Tensor:
    generator = torch.Generator().manual_seed(6)
    # A mean far from 0, and another on each worker: naive sums of squares would lose digits here.
    offsets = torch.arange(workers).repeat_interleave(2).view(-1, 1, 1, 1)
    return torch.randn(2 * workers, 3, 6, 6, generator=generator).double() + 100 + offsets


def overflowed(at: int) -> list[bool]:
    """Whether a worker's gradient is finite, after an overflow on worker `at` and after none."""
    everyone = WorkerGroup(dist.get_rank(), ("here",) * dist.get_world_size(), dist.group.WORLD, CPU)
    finite = []
    for value in (float("inf"), 1.0):
        gradients = [torch.ones(3), torch.full((2,), value if everyone.rank == at else 2.0)]
        sync_overflow(gradients, everyone)
        finite.append(all(bool(gradient.isfinite().all()) for gradient in gradients))
    return finite


def work(rank: int, workers: int, folder: str) -> None:
    """Everything that `workers` train together, in one process group."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=workers)
    groups = {
        ranks: dist.new_group(list(ranks))
        for stages in (1, 2)
        for ranks in (tuple(range(stage, workers, stages)) for stage in range(stages))
        if len(ranks) > 1
    }
    found: dict[Any, Any] = {tuple(case): run_case(case, groups) for case in cases(workers)}
    found["normalised"] = normalised(workers)
    found["overflowed"] = overflowed(at=workers - 1)
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


# What they should give: one process, written out


def expected(case: Case) -> tuple[list[list[float]], dict[str, Tensor]]:
    """Each replica's losses, and the weights, by one process that goes through all samples part by part."""
    arithmetic = arithmetic_of(case)
    model = build_model(case, arithmetic)
    optimizer = OPTIMIZERS.load("sgd")(model.parameters(), case.settings)
    joins = case.batch_norm == "synchronised"
    copies = [copy.deepcopy(model) for _ in range(1 if joins else case.layout.replicas)]
    losses: list[list[float]] = [[] for _ in range(case.layout.replicas)]
    for step in range(STEPS):
        for replica in copies:
            replica.load_state_dict({**replica.state_dict(), **dict(model.named_parameters())})
            replica.zero_grad()
        for place, means in enumerate(pass_replicas(case, arithmetic, copies, samples_of(case, step))):
            losses[place].append(means)
        for weight, *others in zip(*(m.parameters() for m in (model, *copies)), strict=True):
            weight.grad = sum(other.grad for other in others) / case.layout.replicas  # type: ignore[union-attr]
        step_with(arithmetic, optimizer)
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for name, buffer in copies[0].named_buffers():
        weights[name] = torch.stack([dict(c.named_buffers())[name].double() for c in copies]).mean(0).to(buffer.dtype)
    return losses, weights


def pass_replicas(
    case: Case, arithmetic: Arithmetic, copies: list[nn.Module], samples: tuple[Tensor, Tensor]
) -> list[float]:
    """The mean loss of each replica; the gradients of `copies` are the sum over its samples' parts."""
    replicas, passes = case.layout.replicas, case.passes
    of_replica = [
        list(zip(x.chunk(passes), y.chunk(passes), strict=True))
        for x, y in zip(*(part.chunk(replicas) for part in samples), strict=True)
    ]
    means = [0.0] * replicas
    for number in range(passes):
        parts = [parts[number] for parts in of_replica]
        with arithmetic.forward():
            if len(copies) == 1:
                outputs = copies[0](torch.cat([x for x, _ in parts])).chunk(replicas)
            else:
                outputs = tuple(model(x) for model, (x, _) in zip(copies, parts, strict=True))
            found = [F.cross_entropy(out, y) / passes for out, (_, y) in zip(outputs, parts, strict=True)]
        total = torch.stack(found).sum()
        (arithmetic.scaler.scale(total) if arithmetic.scaler else total).backward()
        means = [mean + loss.item() for mean, loss in zip(means, found, strict=True)]
    return means


# The tests


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small models on a busy machine: a second thread would mostly wait for its turn."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[Any, Any]]]:
    """What each worker of the groups of 2 and of 4 found."""
    found = {}
    for workers in (2, 4):
        folder = tmp_path_factory.mktemp(f"{workers}-workers")
        run_workers(work, (workers, str(folder)), workers)
        found[workers] = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(workers)]
    return found


def named(case: Case) -> str:
    return "-".join(map(str, case))


TOLERANCE = {"plain": 1e-5, "resnet-tiny": 1e-4}
ROUNDED = 2e-2  # of bf16 (2^-9) and fp16 (2^-11) at every layer, grown over the steps


@pytest.mark.parametrize("case", EVERY_CASE, ids=named)
def test_losses_and_weights_are_those_of_one_process(case: Case, found: dict[int, list[dict[Any, Any]]]) -> None:
    losses, weights = expected(case)
    tolerance = TOLERANCE[case.model] if case.precision == "fp32" else ROUNDED
    for rank, worker in enumerate(found[case.workers]):
        result = worker[tuple(case)]
        assert result["losses"] == pytest.approx(losses[case.layout.replica_of(rank)], rel=tolerance, abs=tolerance)
        assert result["weights"].keys() == weights.keys()
        for name, value in weights.items():
            assert torch.allclose(result["weights"][name], value, rtol=tolerance, atol=tolerance), name


@pytest.mark.parametrize("case", EVERY_CASE, ids=named)
def test_every_worker_has_the_same_whole_model(case: Case, found: dict[int, list[dict[Any, Any]]]) -> None:
    first, *others = (worker[tuple(case)]["weights"] for worker in found[case.workers])
    for other in others:
        assert all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("case", EVERY_CASE, ids=named)
def test_a_saved_state_goes_on_bit_identically(case: Case, found: dict[int, list[dict[Any, Any]]]) -> None:
    for worker in found[case.workers]:
        result = worker[tuple(case)]
        assert result["losses_resumed"] == result["losses"][STEPS_BEFORE_SAVING:]
        assert all(torch.equal(result["weights"][name], value) for name, value in result["weights_resumed"].items())


@pytest.mark.parametrize("case", EVERY_CASE, ids=named)
def test_what_was_measured_is_possible(case: Case, found: dict[int, list[dict[Any, Any]]]) -> None:
    for worker in found[case.workers]:
        facts = worker[tuple(case)]["facts"]
        assert facts["waited_s"] >= 0
        if case.mode == "sharded":
            assert facts["waited_s"] > 0
        if case.mode in SPLITTING and case.stages > 1:
            assert facts["step_s"] == pytest.approx(facts["busy_s"] + facts["waited_s"])
            assert 0 < facts["busy_s"] < facts["step_s"]
            assert 0 <= facts["bubble_share"] < 1
            if case.layout.replicas == 1:
                assert facts["bubble_share"] == pytest.approx(facts["waited_s"] / facts["step_s"])
            micro_batches = 1 if case.mode == "model" else 4
            assert facts["ideal_bubble_share"] == (case.stages - 1) / (micro_batches + case.stages - 1)


@pytest.mark.parametrize("case", [case for case in EVERY_CASE if case.mode != "data"], ids=named)
def test_the_workers_share_the_weights_among_them(case: Case, found: dict[int, list[dict[Any, Any]]]) -> None:
    whole = sum(weight.numel() for weight in build_model(case, arithmetic_of(case)).parameters())
    held = [worker[tuple(case)]["num_parameters"] for worker in found[case.workers]]
    copies = case.layout.replicas if case.mode in SPLITTING else 1
    assert sum(held) == copies * whole and all(0 < count < whole for count in held)


@pytest.mark.parametrize("workers", [2, 4])
def test_synchronised_batch_normalisation_is_that_of_one_batch(
    workers: int, found: dict[int, list[dict[Any, Any]]]
) -> None:
    model = normalising_model()
    model.load_state_dict(torch.load(io.BytesIO(normalisation_weights()), weights_only=True))
    inputs = normalisation_inputs(workers).requires_grad_()
    outputs = model(inputs)
    (outputs**3).sum().backward()
    results = [worker["normalised"] for worker in found[workers]]
    assert inputs.grad is not None
    assert torch.allclose(torch.cat([result["outputs"] for result in results]), outputs, rtol=1e-9, atol=1e-9)
    assert torch.allclose(torch.cat([result["of inputs"] for result in results]), inputs.grad, rtol=1e-8, atol=1e-8)
    gradients = {f"of {name}": weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert len(gradients) == 4
    for result in results:
        for name, value in {**model.state_dict(), **gradients}.items():
            assert torch.allclose(result[name], value, rtol=1e-8, atol=1e-8), name


@pytest.mark.parametrize("workers", [2, 4])
def test_an_overflow_on_one_worker_is_one_on_all(workers: int, found: dict[int, list[dict[Any, Any]]]) -> None:
    assert [worker["overflowed"] for worker in found[workers]] == [[False, True]] * workers


@pytest.mark.parametrize(("mode", "micro_batches"), [("1f1b", 2), ("gpipe", 3)])
def test_a_worker_does_not_begin_what_the_plan_refuses(mode: str, micro_batches: int) -> None:
    """The words for users, and the nearest valid choice, are the plan's: tests/unit/test_compatible.py."""
    four = WorkerGroup(0, ("here",) * 4, None, CPU)
    parts = assemble(
        Case(mode, 4, 4, "plain"), WorkerGroup(0, ("here",), None, CPU), WorkerGroup(0, ("here",), None, CPU)
    )
    settings = parts.settings.model_copy(update={"micro_batches": micro_batches})
    with pytest.raises(AssertionError, match="checked by the plan"):
        PARALLEL.load(mode)(plain_model(), replace(parts, workers=four, settings=settings))


@pytest.mark.parametrize("mode", list(PARALLEL))
def test_one_worker_trains_as_a_plain_loop_does(mode: str) -> None:
    case = Case(mode, 1, 1, "resnet-tiny", accumulation=2)
    alone = WorkerGroup(0, ("here",), None, CPU)
    run = Run(case, assemble(case, alone, alone), seed=1)
    losses, weights = expected(case._replace(mode="data"))
    assert run.steps(0, STEPS) == pytest.approx(losses[0], rel=1e-6)
    assert all(torch.allclose(value, weights[name], atol=1e-6) for name, value in run.weights().items())
