"""PowerSGD on the wire: low-rank factors of each gradient matrix, by the library's communication hook."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future

from trainmark.spec.config import TrainConfig
from trainmark.spec.errors import ConfigError
from trainmark.train.torch.communication.averaged_gradients import InTurn
from trainmark.train.torch.communication.team import assemble
from trainmark.train.torch.protocols import Peers

MEMORIES = ("error_dict", "p_memory_dict", "q_memory_dict")


class PowerSgd:
    """Low-rank factors (Vogels et al. 2019), with error feedback and warm start; only for allreduce."""

    # An approximation by projection: it never adds to a gradient's norm, and may leave all of a step's to the next.
    tolerance = 1.0

    def __init__(self, settings: TrainConfig) -> None:
        self._rank = settings.powersgd_rank

    def join(self, peers: Peers) -> "PowerSgdJoin":
        """How buckets are joined in this format."""
        if peers.device.type == "cpu" and torch.cuda.is_available():
            # The library's hook synchronises with CUDA wherever there is any, and fails with gradients on the CPU.
            raise ConfigError(
                "powersgd cannot run on the CPU while a GPU is visible. Set CUDA_VISIBLE_DEVICES= (empty)."
            )
        # The library refuses to begin before iteration 2: until then gradients are sent whole.
        state = PowerSGDState(assemble(peers).group, matrix_approximation_rank=self._rank, start_powerSGD_iter=2)
        return PowerSgdJoin(peers, state)


class PowerSgdJoin:
    """Joins buckets by the library's hook."""

    def __init__(self, peers: Peers, state: PowerSGDState) -> None:
        self._state = state
        self._in_turn = InTurn(peers.device)

    def __call__(self, bucket: GradBucket) -> Future[Tensor]:
        """The bucket's mean gradients, once they are there."""
        # The hook's later stages start when earlier ones end: with several buckets under way, each worker would start
        # them in an order of its own.
        return self._in_turn.run(lambda: powerSGD_hook(self._state, bucket).wait())

    def state(self) -> dict[str, Any]:
        """Errors and factors of each bucket, the iteration, and the generator that draws first factors."""
        memories = {name: _copied(getattr(self._state, name)) for name in MEMORIES}
        generator = self._state.rng.get_state(legacy=False)
        key, position = generator["state"]["key"], generator["state"]["pos"]
        return {
            **memories,
            "iteration": self._state.iter,
            "key": torch.from_numpy(key.astype(np.int64)),
            "position": position,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`."""
        for name in MEMORIES:
            setattr(self._state, name, _copied(state[name]))
        self._state.iter = state["iteration"]
        key = state["key"].cpu().numpy().astype(np.uint32)
        self._state.rng.set_state(("MT19937", key, state["position"], 0, 0.0))


def _copied(tensors: dict[int, Tensor]) -> dict[int, Tensor]:
    return {bucket: tensor.clone() for bucket, tensor in tensors.items()}
