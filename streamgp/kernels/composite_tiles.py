"""Tiles of sums and products: parts assign, add to or multiply into one tile while it is in cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.kernels.tiles import Doubles, Floats, Scratch, Tiles


def total(arrays: Sequence[Doubles]) -> Doubles:
    """Sum of arrays of one shape."""
    result = np.zeros_like(arrays[0])
    for array in arrays:
        result += array
    return result


class SumTiles(Tiles):
    """Σ of parts; parts that vanish cost nothing, and the first that does not needs no temporary."""

    def __init__(self, parts: Sequence[Tiles]) -> None:
        super().__init__()
        self._parts = parts
        self._living = [part for part in parts if not part.vanishes]
        self.vanishes = not self._living

    def twin(self) -> SumTiles:
        """Twins of all parts."""
        return SumTiles([part.twin() for part in self._parts])

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""
        if self.vanishes:
            out[...] = 0.0
            return
        self._living[0].fill(left, out)
        for part in self._living[1:]:
            part.add_to(left, out)

    def contract(self, left: Floats, weights: Floats) -> None:
        """Every part takes the same weights."""
        for part in self._living:
            part.contract(left, weights)

    def parameter_gradient(self) -> Doubles:
        """One part after the other."""
        return np.concatenate([part.parameter_gradient() for part in self._parts])

    def input_gradient(self) -> Doubles:
        """Sum over the parts."""
        return total([part.input_gradient() for part in self._parts])


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

    def parameter_gradient(self) -> Doubles:
        """One part after the other."""
        return np.concatenate([part.parameter_gradient() for part in self._parts])

    def input_gradient(self) -> Doubles:
        """Sum over the parts: the product rule is in their weights."""
        return total([part.input_gradient() for part in self._parts])
