"""Pipeline parallelism: the layers of a model split over workers, which a batch passes in micro-batches."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from trainmark.spec.events import EpochFacts
from trainmark.train.torch.collectives import average, average_buffers, broadcast_flat, sync_overflow
from trainmark.train.torch.parallel import data
from trainmark.train.torch.parallel.batch_norm import synchronise
from trainmark.train.torch.parallel.data import PassLoss, load_state, mean_loss, state_of
from trainmark.train.torch.parallel.relay import Ends, Relay, StageShapes
from trainmark.train.torch.parallel.stages import StageLayers, TimedStage, boundaries, stages_of
from trainmark.train.torch.protocols import Parallelism, Parts, Pass, StepPasses
from trainmark.train.torch.stopwatch import Stopwatch

Schedule = Callable[..., PipelineScheduleSingle]


def build_pipeline(model: nn.Module, parts: Parts, schedule: Schedule | None, micro_batches: int) -> Parallelism:
    """The model with its layers split over the workers of each replica; without a schedule, one batch at a time."""
    if parts.layout.stages == 1:
        assert parts.workers.size == 1, "checked by the plan: replicas of whole models are data parallelism"
        return data.build(model, parts)
    assert parts.settings.batch_size % micro_batches == 0, "checked by the plan"
    return Pipeline(model, parts, schedule, micro_batches)


class Pipeline:
    """One stage of a replica's pipeline; batch normalisation sees one micro-batch at a time."""

    def __init__(self, model: nn.Module, parts: Parts, schedule: Schedule | None, micro_batches: int) -> None:
        self._parts, self._micro_batches = parts, micro_batches
        samples = parts.settings.batch_size if schedule is None else None
        self._stages = stages_of(model, parts.layout.stages, parts.sample_shape, samples)
        self._place = parts.layout.stage_of(parts.workers.rank)
        self._watch = Stopwatch(parts.workers.device)
        self._group = _replica_group(parts)
        self._losses: list[PassLoss] = []
        assert isinstance(model, nn.Sequential)
        crossing = boundaries(model, parts)
        layers = self._stages[self._place]
        shapes = StageShapes(model, layers)
        self._inputs, self._outputs = crossing[layers.start], crossing[layers.stop]
        # The other layers are dropped: that is the memory that splitting saves.
        self._layers: nn.Module = _slice(model, layers).train()
        if parts.settings.batch_norm == "synchronised":
            self._layers = synchronise(self._layers, parts.replicas)
        ends = Ends(self._inputs, self._outputs)
        self._relay = Relay(self._layers, shapes, ends, parts, self._group, self._watch)
        self._schedule = schedule and schedule(
            self._stage(), micro_batches, loss_fn=self._micro_loss, scale_grads=False
        )

    def _stage(self) -> TimedStage:
        parts, samples = self._parts, self._parts.settings.batch_size // self._micro_batches
        return TimedStage(
            StageLayers(self._layers, self._inputs, self._outputs, parts.arithmetic.forward),
            self._place,
            parts.layout.stages,
            parts.workers.device,
            input_args=self._inputs.example(samples, requires_grad=self._place > 0),
            output_args=self._outputs.example(samples, requires_grad=True),
            group=self._group,
            watch=self._watch,
        )

    def _micro_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """A micro-batch's part of the step's mean loss, so that gradients need no rescaling."""
        arithmetic = self._parts.arithmetic
        with self._watch.section("busy"), arithmetic.forward():
            # In fp32, as in data parallelism.
            loss = self._parts.task.loss_of_outputs(self._outputs.unpack(outputs).float(), targets)
            loss = loss / (self._micro_batches * self._parts.settings.accumulation)
            self._losses.append(PassLoss(loss.detach(), 1.0, 1))
            return arithmetic.scaler.scale(loss) if arithmetic.scaler else loss

    def _pass_loss(self, outputs: Tensor, samples: Pass) -> Tensor:
        """A pass's part of the step's mean loss, as in data parallelism."""
        arithmetic = self._parts.arithmetic
        with self._watch.section("busy"), arithmetic.forward():
            loss = self._parts.task.loss_of_outputs(outputs.float(), samples.targets)
            self._losses.append(PassLoss(loss.detach(), samples.weight, samples.divisor))
            weighted = loss * (samples.weight / samples.divisor)
            return arithmetic.scaler.scale(weighted) if arithmetic.scaler else weighted

    def parameters(self) -> list[nn.Parameter]:
        """The weights of this stage."""
        return list(self._layers.parameters())

    def forward_backward(self, passes: Sequence[Pass] | StepPasses) -> Tensor:
        """Averages gradients over the replicas; returns the replica's mean loss on all its stages."""
        with self._watch.section("step"):
            for samples in passes:
                self._run(samples)
            gradients = [weight.grad for weight in self._layers.parameters() if weight.grad is not None]
            if self._parts.replicas.size > 1:
                with self._watch.section("exchange"):
                    average(gradients, self._parts.replicas)
            loss = self._replica_loss()
            if scaler := self._parts.arithmetic.scaler:
                scaler.scale(loss)  # initialises the scaler: only the last stage computes a loss
                sync_overflow(gradients, self._parts.workers)
            return loss

    def _run(self, samples: Pass) -> None:
        """Runs one batch forward and backward; the first stage takes the samples, the last their labels."""
        if self._schedule is None:
            self._relay.run(samples, self._pass_loss)
        elif self._place == 0:
            self._schedule.step(self._inputs.pack(samples.inputs))
        elif self._place == self._parts.layout.stages - 1:
            self._schedule.step(target=samples.targets, return_outputs=False)
        else:
            self._schedule.step()

    def _replica_loss(self) -> Tensor:
        """Broadcasts the loss of the last stage to all stages."""
        losses, self._losses = self._losses, []
        if not losses:
            loss = torch.empty((), device=self._parts.workers.device)
        else:
            loss = mean_loss(losses) if self._schedule is None else torch.stack([each.loss for each in losses]).sum()
        dist.broadcast(loss, group=self._group, group_src=self._parts.layout.stages - 1)
        return loss

    def whole_model(self) -> nn.Module:
        """A new model with the weights of all stages and running statistics averaged over the replicas."""
        average_buffers(self._layers, self._parts.replicas)
        with torch.random.fork_rng():
            whole = self._parts.build_model()
        for place, layers in enumerate(self._stages):
            part = _slice(whole, layers)
            if place == self._place:
                part.load_state_dict(self._layers.state_dict())
            # The first workers are replica 0, in stage order.
            broadcast_flat(place, list(part.state_dict().values()), self._parts.workers)
        return whole

    def compiled_model(self) -> nn.Module | None:
        """None: every worker has some of the layers."""
        return None

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Weights and running statistics of this stage, and its optimizer state."""
        return state_of(self._layers, optimizer, self._parts.arithmetic.scaler)

    def load(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Restores what `state` returned on this worker."""
        load_state(state, self._layers, optimizer, self._parts.arithmetic.scaler)

    def facts(self) -> EpochFacts:
        """Busy and waiting time of this stage, and the share of its step time that is pipeline bubble.

        Everything but its forward, backward and loss is waiting: for activations and gradients of other stages, for
        the last stage (a step ends on all stages together, with the loss), and for the gradients of other replicas,
        which is not bubble. Scheduling overhead, microseconds, counts as waiting.
        """
        seconds = self._watch.read()
        stages, step_s, busy_s = self._parts.layout.stages, seconds["step"], seconds["busy"]
        return {
            "waited_s": step_s - busy_s,
            "busy_s": busy_s,
            "step_s": step_s,
            "bubble_share": (step_s - busy_s - seconds["exchange"]) / step_s if step_s else None,
            # S − 1 of M + S − 1 slots are spent filling and draining the pipeline.
            "ideal_bubble_share": (stages - 1) / (self._micro_batches + stages - 1),
        }


def _slice(model: nn.Module, layers: range) -> nn.Sequential:
    """A range of layers of a model, under their names in the model."""
    return nn.Sequential(OrderedDict(list(model.named_children())[layers.start : layers.stop]))


def _replica_group(parts: Parts) -> dist.ProcessGroup | None:
    """The process group of this worker's replica."""
    if parts.layout.replicas == 1:
        return parts.workers.group
    first = parts.layout.replica_of(parts.workers.rank) * parts.layout.stages
    assert parts.workers.group is not None
    ranks = dist.get_process_group_ranks(parts.workers.group)
    group: dist.ProcessGroup = dist.new_group(
        ranks[first : first + parts.layout.stages], use_local_synchronization=True
    )
    return group


def build_model_parallel(model: nn.Module, parts: Parts) -> Parallelism:
    """Model parallelism: layers split over workers, which process the whole batch one after the other."""
    return build_pipeline(model, parts, None, micro_batches=1)


def build_gpipe(model: nn.Module, parts: Parts) -> Parallelism:
    """GPipe pipeline: layers split over workers; all micro-batches forward, then all backward."""
    return build_pipeline(model, parts, ScheduleGPipe, parts.settings.micro_batches)


def build_1f1b(model: nn.Module, parts: Parts) -> Parallelism:
    """1F1B pipeline: layers split over workers; each micro-batch runs backward as soon as possible."""
    stages, micro_batches = parts.layout.stages, parts.settings.micro_batches
    assert micro_batches >= stages or parts.workers.size == 1, "checked by the plan"
    return build_pipeline(model, parts, Schedule1F1B, micro_batches)
