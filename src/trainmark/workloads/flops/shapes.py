"""The cost of a convolutional network for images of any height and width: exact, from a few counts on shapes alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from trainmark.spec.config import Setting
from trainmark.spec.errors import ConfigError
from trainmark.spec.model_card import ModelCard
from trainmark.workloads.find import find_card
from trainmark.workloads.flops.count import count_sample
from trainmark.workloads.flops.resolutions import Resolution, Sides, find_resolutions

BYTES = "activation_bytes"
MOST_TRIED = 500  # shapes, until enough of them tell all coefficients


@dataclass(frozen=True)
class CostByShape:
    """FLOPs and kept bytes of a sample: a constant, and one coefficient per pixel of each resolution."""

    model: str
    parameters: int
    smallest_side: int
    resolutions: tuple[Resolution, ...]
    coefficients: Mapping[str, NDArray[np.int64]]  # of each convention and of kept bytes; the constant last

    def training_flop(self, convention: str, heights: ArrayLike, widths: ArrayLike) -> NDArray[np.float64]:
        """Returns the FLOPs of a forward and backward pass of one sample of each height and width."""
        return self._cost(convention, heights, widths).astype(np.float64)

    def activation_bytes(self, heights: ArrayLike, widths: ArrayLike) -> NDArray[np.float64]:
        """Returns the bytes of one sample of each height and width that are kept for the backward pass, in fp32."""
        return self._cost(BYTES, heights, widths).astype(np.float64)

    @property
    def conventions(self) -> tuple[str, ...]:
        """The FLOP conventions."""
        return tuple(name for name in self.coefficients if name != BYTES)

    def _cost(self, what: str, heights: ArrayLike, widths: ArrayLike) -> Sides:
        sides = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
        if any(each.size and each.min() < self.smallest_side for each in sides):
            raise ConfigError(
                f"The model '{self.model}' needs images of at least {self.smallest_side} × {self.smallest_side}. "
                "Choose larger ones."
            )
        *of_pixels, constant = self.coefficients[what].tolist()
        cost = np.full(np.broadcast_shapes(*(each.shape for each in sides)), constant, np.int64)
        for resolution, coefficient in zip(self.resolutions, of_pixels, strict=True):
            cost += coefficient * resolution.area(*sides)
        return cost


def cost_by_shape(model: str, settings: Mapping[str, Setting]) -> CostByShape:
    """Returns the cost of a model as a function of the image's shape; raises if it has not the form of CostByShape."""
    card = find_card(model)
    channels = int(card.value_of("channels", settings) or card.input_shape[0])
    if len(card.input_shape) != 3 or not card.has_fixed_shapes:
        raise ConfigError(f"The cost of '{model}' by the shape of images is not known: it depends on the data.")
    with torch.device("meta"):
        built: nn.Module = card.build("torch", settings).train()
    resolutions = find_resolutions(built, model, channels)
    shapes = _telling_shapes(card, resolutions)
    counts = {shape: _counts(built, model, (channels, *shape)) for shape in (*shapes, *_further_shapes(card))}
    names = list(counts[shapes[0]])
    matrix = [_row(resolutions, shape) for shape in shapes]
    solved = {name: _solve(matrix, [counts[shape][name] for shape in shapes]) for name in names}
    if any(value.denominator != 1 for of_name in solved.values() for value in of_name):
        raise _refused(model)
    coefficients = {name: np.array([int(value) for value in of_name], np.int64) for name, of_name in solved.items()}
    parameters = sum(parameter.numel() for parameter in built.parameters())
    found = CostByShape(model, parameters, card.smallest_side, resolutions, coefficients)
    for shape, counted in counts.items():
        if any(int(found._cost(name, *shape)) != counted[name] for name in names):
            raise _refused(model)
    return found


def _refused(model: str) -> ConfigError:
    return ConfigError(
        f"The cost of '{model}' by the shape of images is not known: it is not a constant and a number per pixel of "
        "each of its resolutions."
    )


def _counts(model: nn.Module, name: str, shape: tuple[int, ...]) -> dict[str, int | Fraction]:
    counted = count_sample(model, name, shape)
    return {**{name: Fraction(flop) for name, flop in counted.training_flop.items()}, BYTES: counted.activation_bytes}


def _row(resolutions: Sequence[Resolution], shape: tuple[int, int]) -> list[int]:
    """Returns the pixels of each resolution, and 1 for the constant."""
    heights, widths = (np.array(side, np.int64) for side in shape)
    return [*(int(resolution.area(heights, widths)) for resolution in resolutions), 1]


def _telling_shapes(card: ModelCard, resolutions: Sequence[Resolution]) -> list[tuple[int, int]]:
    """Returns as few shapes as tell all coefficients."""
    chosen: list[tuple[int, int]] = []
    for shape, _ in zip(_all_shapes(card.smallest_side), range(MOST_TRIED), strict=False):
        rows = [_row(resolutions, each) for each in (*chosen, shape)]
        if _rank(rows) == len(rows):
            chosen.append(shape)
        if len(chosen) == len(resolutions) + 1:
            return chosen
    raise _refused(card.name)


def _all_shapes(smallest: int) -> Iterator[tuple[int, int]]:
    """Shapes of growing, coprime sides, neither square nor multiples of a stride."""
    return ((smallest + 32 + 23 * place, smallest + 33 + 37 * place) for place in count())


def _further_shapes(card: ModelCard) -> list[tuple[int, int]]:
    """Shapes that were not needed to find the cost, to verify it: tiny, long, odd, large."""
    least = card.smallest_side
    return [(least, least + 1), (least + 7, least + 1900), (500, 333), (3001, 2250)]


def _eliminated(rows: Sequence[Sequence[int | Fraction]], columns: int) -> tuple[list[list[Fraction]], int]:
    """Returns the reduced row echelon form and its rank over the first columns; exact, whatever the conditioning."""
    matrix = [[Fraction(value) for value in row] for row in rows]
    rank = 0
    for column in range(columns):
        pivot = next((place for place in range(rank, len(matrix)) if matrix[place][column]), None)
        if pivot is None:
            continue
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        matrix[rank] = [value / matrix[rank][column] for value in matrix[rank]]
        for place, row in enumerate(matrix):
            if place != rank and row[column]:
                factor = row[column]
                matrix[place] = [value - factor * above for value, above in zip(row, matrix[rank], strict=True)]
        rank += 1
    return matrix, rank


def _rank(rows: Sequence[Sequence[int]]) -> int:
    return _eliminated(rows, len(rows[0]))[1]


def _solve(rows: Sequence[Sequence[int]], values: Sequence[int | Fraction]) -> list[Fraction]:
    """Returns the solution of a square system of full rank."""
    joined = [[*row, value] for row, value in zip(rows, values, strict=True)]
    return [row[-1] for row in _eliminated(joined, len(rows))[0]]
