"""Tiles of sums and products: parts assign, add to or multiply into one tile while it is in cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.kernels.inner_product_tiles import LinearTiles
from streamgp.kernels.stationary_tiles import StationaryTiles
from streamgp.kernels.tiles import Scratch, Tiles


def total(arrays: Sequence[FloatArray]) -> FloatArray:
    """Sum of arrays of one shape."""
    result = np.zeros_like(arrays[0])
    for array in arrays:
        result += array
    return result


class SumTiles(Tiles):
    """Σ of parts; parts that vanish cost nothing, and the first that does not needs no temporary.

    An RBF and a linear kernel are filled from one matrix product.
    """

    def __init__(self, parts: Sequence[Tiles]) -> None:
        super().__init__()
        self._parts = parts
        self._living = [part for part in parts if not part.vanishes]
        self.vanishes = not self._living
        self._pair = _with_common_products(self._living)

    def twin(self) -> SumTiles:
        """Twins of all parts."""
        return SumTiles([part.twin() for part in self._parts])

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""
        if self.vanishes:
            out[...] = 0.0
            return
        for part in self._begun(left, out):
            part.add_to(left, out)

    def _begun(self, left: Floats, out: Floats) -> list[Tiles]:
        """Assign the values of one part, or of the pair, to out; the parts that are still to be added."""
        if self._pair is not None:
            rbf, linear = self._pair
            if rbf.fill_with_linear(left, out, linear.variance):
                return [part for part in self._living if part is not rbf and part is not linear]
        self._living[0].fill(left, out)
        return self._living[1:]

    def contract(self, left: Floats, weights: Floats) -> None:
        """Every part takes the same weights."""
        for part in self._living:
            part.contract(left, weights)

    def parameter_gradient(self) -> FloatArray:
        """One part after the other."""
        return np.concatenate([part.parameter_gradient() for part in self._parts])

    def input_gradient(self) -> FloatArray:
        """Sum over the parts."""
        return total([part.input_gradient() for part in self._parts])


def _with_common_products(parts: Sequence[Tiles]) -> tuple[StationaryTiles, LinearTiles] | None:
    """The first two parts that can be filled from one matrix product."""
    stationary = [part for part in parts if isinstance(part, StationaryTiles) and part.shares_products]
    linear = [part for part in parts if isinstance(part, LinearTiles)]
    return (stationary[0], linear[0]) if stationary and linear else None


class ProductTiles(Tiles):
    """Π of parts; the derivative of each takes the weights times the values of all the others."""

    def __init__(self, parts: Sequence[Tiles]) -> None:
        super().__init__()
        self._parts = parts
        self._values = [Scratch() for _ in parts]
        self._others = Scratch()
        self.vanishes = any(part.vanishes for part in parts)

    def twin(self) -> ProductTiles:
        """Twins of all parts."""
        return ProductTiles([part.twin() for part in self._parts])

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""
        if self.vanishes:
            out[...] = 0.0
            return
        self._parts[0].fill(left, out)
        for part in self._parts[1:]:
            part.multiply_into(left, out)

    def contract(self, left: Floats, weights: Floats) -> None:
        """Product rule, on one tile.  Cost: one fill and one contraction of every part."""
        if self.vanishes:
            return
        values = [scratch.take(weights.shape, weights.dtype) for scratch in self._values]
        for part, value in zip(self._parts, values, strict=True):
            part.fill(left, value)
        others = self._others.take(weights.shape, weights.dtype)
        for chosen, part in enumerate(self._parts):
            others[...] = weights
            for place, value in enumerate(values):
                if place != chosen:
                    others *= value
            part.contract(left, others)

    def parameter_gradient(self) -> FloatArray:
        """One part after the other."""
        return np.concatenate([part.parameter_gradient() for part in self._parts])

    def input_gradient(self) -> FloatArray:
        """Sum over the parts: the product rule is in their weights."""
        return total([part.input_gradient() for part in self._parts])
