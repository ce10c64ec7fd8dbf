"""Kernels of the inner product: linear and polynomial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.errors import ParameterError
from streamgp.kernels.base import Kernel
from streamgp.kernels.inner_product_tiles import LinearTiles, PolynomialTiles, shifted
from streamgp.kernels.tiles import Tiles


def _squared_norms(rows: Floats) -> FloatArray:
    norms: FloatArray = np.einsum("iq,iq->i", rows, rows, dtype=np.float64)
    return norms


def _checked_degree(degree: Any) -> int:
    if isinstance(degree, bool) or not isinstance(degree, Integral) or int(degree) < 1:
        raise ParameterError(f"degree is {degree!r}; it must be an integer, at least 1")
    return int(degree)


def _checked_origin(origin: Any) -> float:
    if isinstance(origin, bool) or not isinstance(origin, Real) or not math.isfinite(origin):
        raise ParameterError(f"origin is {origin!r}; it must be a finite number")
    return float(origin)


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear functions through the origin: k(x, x') = variance x·x'."""

    variance: float = 1.0

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return LinearTiles(self.variance, right)

    def smooth_diagonal(self, rows: Floats) -> FloatArray:
        """The variance times the squared norm."""
        return self.variance * _squared_norms(rows)

    def smooth_diagonal_input_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Twice the variance times the row."""
        return 2.0 * self.variance * np.asarray(weights, np.float64)[:, None] * rows


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomials up to a degree, which is not learned.

    k(x, x') = variance ((t + offset)/(1 + offset))^degree,  t = x·x'
    with normalize: t = x·x'/(|x||x'|), and 0 where a row is zero
    x is the row minus ``origin``, which is not learned: of images it may be the background, whatever their
    features were shifted by.
    Hazard: without normalize, large inputs overflow where the power does; standardise them.
    Source: [PASS2012] uses degree 9 and offset 1 on MNIST, without normalisation.
    """

    degree: int
    variance: float = 1.0
    offset: float = 1.0
    normalize: bool = False
    origin: float = 0.0

    learned = ("variance", "offset")

    def __post_init__(self) -> None:
        """Check the degree, then the parameters."""
        object.__setattr__(self, "degree", _checked_degree(self.degree))
        object.__setattr__(self, "normalize", bool(self.normalize))
        object.__setattr__(self, "origin", _checked_origin(self.origin))
        super().__post_init__()

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        numbers = (self.degree, self.variance, self.offset, self.normalize, self.origin)
        return PolynomialTiles(*numbers, right, inputs)

    def _bases(self, rows: Floats) -> FloatArray:
        """(t + offset)/(1 + offset) of each row with itself."""
        norms = _squared_norms(shifted(rows, self.origin))
        products = np.where(norms > 0.0, 1.0, 0.0) if self.normalize else norms
        return (products + self.offset) / (1.0 + self.offset)

    def smooth_diagonal(self, rows: Floats) -> FloatArray:
        """The polynomial of the squared norm."""
        return self.variance * self._bases(rows) ** self.degree

    def smooth_diagonal_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Of log variance and log offset."""
        bases = self._bases(rows)
        by_base = self.variance * self.degree * bases ** (self.degree - 1)
        by_offset = weights @ (by_base * (1.0 - bases)) * self.offset / (1.0 + self.offset)
        return np.array([self.variance * (weights @ bases**self.degree), by_offset])

    def smooth_diagonal_input_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Along the row; zero if normalized."""
        if self.normalize:
            return np.zeros(rows.shape)
        by_base = self.variance * self.degree * self._bases(rows) ** (self.degree - 1)
        return (2.0 / (1.0 + self.offset) * by_base * weights)[:, None] * shifted(rows, self.origin)
