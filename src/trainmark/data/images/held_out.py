"""Which samples are held out where no file lists them: the same share of every group, drawn from a seed."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def held_out_counts(sizes: Sequence[int], share: Fraction) -> list[int]:
    """How many of each group are held out: the share of all of them, rounded once, not group by group."""
    exact = [size * share for size in sizes]
    counts = [int(each) for each in exact]
    missing = round(sum(sizes) * share) - sum(counts)
    largest_remainder = sorted(range(len(sizes)), key=lambda group: counts[group] - exact[group])
    for group in largest_remainder[:missing]:
        counts[group] += 1
    return counts


def hold_out(sizes: Sequence[int], share: Fraction, seed: int) -> list[NDArray[np.bool_]]:
    """For each group, which of its samples are held out."""
    masks = []
    for group, (size, count) in enumerate(zip(sizes, held_out_counts(sizes, share), strict=True)):
        mask = np.zeros(size, np.bool_)
        mask[np.random.default_rng((seed, group)).permutation(size)[:count]] = True
        masks.append(mask)
    return masks
