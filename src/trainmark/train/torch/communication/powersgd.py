"""PowerSGD: low-rank factors of each gradient matrix, by torch's communication hook."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import ConfigError
from trainmark.train.torch.communication.averaged_gradients import ExchangeQueue
from trainmark.train.torch.communication.team import form_team
from trainmark.train.torch.protocols import WorkerGroup

STATE_DICTS = ("error_dict", "p_memory_dict", "q_memory_dict")


class PowerSgd:
    """Low-rank factors (Vogels et al. 2019), with error feedback and warm start; only for allreduce."""

    # A projection never increases a gradient's norm, and may defer all of a step's gradient to the next.
    tolerance = 1.0

    def __init__(self, settings: TrainConfig) -> None:
        self._rank = settings.powersgd_rank

    def reduction(self, workers: WorkerGroup) -> "PowerSgdReduction":
        """The reduction of buckets in this format."""
        if workers.device.type == "cpu" and torch.cuda.is_available():
            # torch's hook synchronises with CUDA whenever it is available, and fails with gradients on the CPU.
            raise ConfigError(
                "powersgd cannot run on the CPU while a GPU is visible. Set CUDA_VISIBLE_DEVICES= (empty)."
            )
        # torch requires at least 2: until then gradients are sent uncompressed.
        state = PowerSGDState(form_team(workers).group, matrix_approximation_rank=self._rank, start_powerSGD_iter=2)
        return PowerSgdReduction(workers, state)


class PowerSgdReduction:
    """Reduces buckets by torch's hook."""

    def __init__(self, workers: WorkerGroup, state: PowerSGDState) -> None:
        self._state = state
        self._queue = ExchangeQueue(workers.device)

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """Returns a future of the bucket's mean gradients."""
        # The hook chains several collectives: with several buckets in flight, their order would differ between workers.
        return self._queue.submit(lambda: powerSGD_hook(self._state, bucket).wait())

    def state(self) -> dict[str, Any]:
        """Errors and factors of each bucket, the iteration, and the generator of initial factors."""
        dicts = {name: _copied(getattr(self._state, name)) for name in STATE_DICTS}
        generator = self._state.rng.get_state(legacy=False)
        key, position = generator["state"]["key"], generator["state"]["pos"]
        return {
            **dicts,
            "iteration": self._state.iter,
            "key": torch.from_numpy(key.astype(np.int64)),
            "position": position,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        for name in STATE_DICTS:
            setattr(self._state, name, _copied(state[name]))
        self._state.iter = state["iteration"]
        key = state["key"].cpu().numpy().astype(np.uint32)
        self._state.rng.set_state(("MT19937", key, state["position"], 0, 0.0))


def _copied(tensors: dict[int, Tensor]) -> dict[int, Tensor]:
    return {bucket: tensor.clone() for bucket, tensor in tensors.items()}
