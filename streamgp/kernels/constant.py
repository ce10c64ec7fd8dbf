"""The two simplest kernels: the same covariance everywhere, and none at all between different rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.kernels.base import Kernel
from streamgp.kernels.tiles import Tiles


class ConstantTiles(Tiles):
    """Tiles of one value, which add and multiply without a temporary."""

    def __init__(self, variance: float, right: Floats) -> None:
        super().__init__()
        self.vanishes = variance == 0.0
        self._variance, self._shape, self._total = variance, right.shape, 0.0

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign the value."""
        out[...] = self._variance

    def add_to(self, left: Floats, out: Floats) -> None:
        """Add the value."""
        out += out.dtype.type(self._variance)

    def multiply_into(self, left: Floats, out: Floats) -> None:
        """Multiply by the value."""
        out *= out.dtype.type(self._variance)

    def contract(self, left: Floats, weights: Floats) -> None:
        """Sum the weights."""
        self._total += float(weights.sum(dtype=np.float64))

    def parameter_gradient(self) -> FloatArray:
        """For log variance."""
        return np.array([self._total * self._variance])

    def input_gradient(self) -> FloatArray:
        """Zero."""
        return np.zeros(self._shape)


@dataclass(frozen=True)
class Constant(Kernel):
    """An unknown constant: k(x, x') = variance."""

    variance: float = 1.0

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return ConstantTiles(self.variance, right)


@dataclass(frozen=True)
class White(Kernel):
    """White noise: variance of a row with itself, nothing with any other, even an equal one.

    Part of every row's own k(x, x), training or test: of ``diagonal`` and ``gram``. Never of a block, nor of
    the covariance of inducing inputs, which are values of the function and no rows (``smooth_gram``).
    """

    variance: float = 1.0

    is_white = True

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return ConstantTiles(0.0, right)

    def smooth_diagonal(self, rows: Floats) -> FloatArray:
        """Zero."""
        return np.zeros(len(rows))

    def nugget(self, rows: Floats) -> FloatArray:
        """The variance."""
        return np.full(len(rows), self.variance)

    def nugget_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Of log variance."""
        return np.array([self.variance * weights.sum()])
