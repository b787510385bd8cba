"""POP efficiencies of members with several workers: load balance, communication and parallel efficiency."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from trainmark.collect.measured import NO_MEMBER, Measured, Member
from trainmark.collect.metrics.communication import why_no_exchange, why_no_waits
from trainmark.collect.statistics import mean_interval
from trainmark.spec.events import EpochStop
from trainmark.spec.metrics import Figure, MetricRow


class Efficiency(NamedTuple):
    """Useful time of each rank of a member, and the member's run time."""

    useful_s: tuple[float, ...]
    run_s: float

    @property
    def load_balance(self) -> float:
        """Mean over largest useful time."""
        return sum(self.useful_s) / len(self.useful_s) / max(self.useful_s)

    @property
    def communication(self) -> float:
        """Largest useful time over run time."""
        return max(self.useful_s) / self.run_s

    @property
    def parallel(self) -> float:
        """Load balance × communication efficiency: mean useful time over run time."""
        return self.load_balance * self.communication


def efficiency_of(ranks: Sequence[Sequence[EpochStop]]) -> Efficiency:
    """Returns the efficiency over the epochs of a member's ranks; time not waited for other ranks is useful."""
    useful_s = tuple(sum(stop.epoch_s - (stop.waited_s or 0.0) for stop in stops) for stops in ranks)
    return Efficiency(useful_s, max(sum(stop.epoch_s for stop in stops) for stops in ranks))


def _common_epochs(member: Member) -> list[list[EpochStop]]:
    """Returns each rank's epochs that all ranks have completed; ranks of a running member may be one epoch apart."""
    ranks = [{stop.epoch: stop for stop in member.all_of(EpochStop, rank.rank)} for rank in member.job.ranks]
    common = sorted(set.intersection(*(set(epochs) for epochs in ranks)))
    return [[epochs[epoch] for epoch in common] for epochs in ranks]


def _mean_over_members(measured: Measured, part: Callable[[Efficiency], float]) -> Figure | str:
    if reason := why_no_exchange(measured) or why_no_waits(measured):
        return reason
    epochs = {member.job.member: _common_epochs(member) for member in measured.finished}
    found = {member: efficiency_of(ranks) for member, ranks in epochs.items() if ranks[0]}
    if not found:
        return NO_MEMBER
    values = np.array([part(each) for each in found.values()])
    return Figure(
        value=float(values.mean()),
        ci95=mean_interval(values, least=0.0, most=1.0),
        n=len(values),
        detail={
            "members": [
                {"member": member, "value": part(each), "useful_s": list(each.useful_s), "run_s": each.run_s}
                for member, each in found.items()
            ]
        },
    )


LOAD_BALANCE = MetricRow(
    "load_balance",
    "share",
    "higher",
    "load balance",
    description="POP's load balance: mean over largest useful time of a member's workers.",
    compute=lambda measured: _mean_over_members(measured, lambda member: member.load_balance),
    needs="epochs",
    hide_if_unavailable=True,
    per_member=True,
)
COMMUNICATION = MetricRow(
    "communication_efficiency",
    "share",
    "higher",
    "communication efficiency",
    description="POP's communication efficiency: the largest useful time of a member's workers over its run time.",
    compute=lambda measured: _mean_over_members(measured, lambda member: member.communication),
    needs="epochs",
    hide_if_unavailable=True,
    per_member=True,
)
PARALLEL = MetricRow(
    "parallel_efficiency",
    "share",
    "higher",
    "parallel efficiency",
    description="POP's parallel efficiency: load balance × communication efficiency, per member.",
    compute=lambda measured: _mean_over_members(measured, lambda member: member.parallel),
    needs="epochs",
    hide_if_unavailable=True,
    per_member=True,
)
