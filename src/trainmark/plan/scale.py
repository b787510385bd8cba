"""Eq. 5, system scale = members × workers: any two give the third, a contradiction is refused."""

from typing import NamedTuple

from trainmark.spec.config import EnsembleChoices
from trainmark.spec.errors import PlanError
from trainmark.spec.site import Site


class Scale(NamedTuple):
    """Members M, workers per member P, and their product, the system scale."""

    members: int
    workers: int
    system_scale: int


def default_workers(site: Site) -> int:
    """AI500's default, the slots of a node; on one machine without accelerators 1, to make an ensemble of it."""
    if site.num_nodes == 1 and not site.has_accelerators:
        return 1
    return min(len(group.slots) for group in site.groups)


def solve_scale(choice: EnsembleChoices, site: Site) -> Scale:
    """M, P and system scale from what was chosen and, for what was not, from the site."""
    members, workers, scale = choice.members, choice.workers, choice.system_scale
    if members is not None and workers is not None:
        product = members * workers
        if scale is not None and scale != product:
            raise PlanError(
                f"{members} members × {workers} workers = {product}, but the system scale is {scale}. "
                f"Choose --members and --workers whose product is {scale}, or pass --system-scale {product}."
            )
        return Scale(members, workers, product)
    if members is not None:
        if scale is None:
            workers = default_workers(site)
            return Scale(members, workers, members * workers)
        return Scale(members, _divide(scale, members, "member", "--members"), scale)
    if workers is None:
        workers = default_workers(site)
    if scale is None:
        scale = site.num_slots
    return Scale(_divide(scale, workers, "worker", "--workers"), workers, scale)


def _divide(scale: int, part: int, noun: str, flag: str) -> int:
    if scale % part:
        below, above = _divisors_around(scale, part)
        raise PlanError(
            f"A system scale of {scale} cannot be shared by {part} {noun}s: {scale} / {part} is not whole. "
            f"Choose {flag} {below}{f' or {above}' if above else ''}, or another --system-scale."
        )
    return scale // part


def _divisors_around(scale: int, part: int) -> tuple[int, int | None]:
    below = next(d for d in range(min(part, scale), 0, -1) if scale % d == 0)
    above = next((d for d in range(part, scale + 1) if scale % d == 0), None)
    return below, above
