"""Tiles of linear and polynomial kernels."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.kernels.tiles import Scratch, Tiles
from streamgp.numerics.kernel_contractions import contract_polynomial_tile
from streamgp.numerics.kernel_sweeps import polynomial_tile


def unit_rows(rows: Floats, *, overwrite: bool = False) -> tuple[Floats, Floats]:
    """Rows divided by their norms (zero rows stay zero), and the inverse norms (zero for those)."""
    norms = np.sqrt(np.einsum("iq,iq->i", rows, rows))
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    return np.multiply(rows, inverse[:, None], out=rows if overwrite else None), inverse


def shifted(rows: Floats, origin: float) -> Floats:
    """Rows minus the origin; as they are where it is zero."""
    return rows - rows.dtype.type(origin) if origin else rows


class LinearTiles(Tiles):
    """v x·z: the variance is in the right rows, so a block is a matrix product and nothing else.

    Contractions: Σ W ∘ K = Σ (Wᵀ L) ∘ v R;  ∂/∂R: v Wᵀ L
    v variance; W weights; L, R left and right rows
    """

    def __init__(self, variance: float, right: Floats) -> None:
        super().__init__()
        self.variance, self._scaled_right = variance, right * right.dtype.type(variance)
        self._moment: FloatArray | None = None

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""
        np.matmul(left, self._scaled_right.T, out=out)

    def contract(self, left: Floats, weights: Floats) -> None:
        """Add this tile's share to both gradients."""
        share = weights.T @ left
        self._moment = share.astype(np.float64) if self._moment is None else self._moment + share

    def parameter_gradient(self) -> FloatArray:
        """For log variance."""
        return np.zeros(1) if self._moment is None else np.array([np.vdot(self._moment, self._scaled_right)])

    def input_gradient(self) -> FloatArray:
        """For each right row and feature."""
        return np.zeros(self._scaled_right.shape) if self._moment is None else self.variance * self._moment


class PolynomialTiles(Tiles):
    """v u^degree, u = (x·z + offset)/(1 + offset), of rows minus the origin that may then be normalized.

    ∂u/∂log offset = offset (1 − u)/(1 + offset);  ∂u/∂z = x/(1 + offset), and for ẑ = z/|z|
    the gradient g by ẑ becomes (g − ẑ (ẑ·g))/|z|.
    Cost: one matrix product and degree sweeps in cache; a second product for input gradients.
    """

    def __init__(
        self,
        degree: int,
        variance: float,
        offset: float,
        normalize: bool,
        origin: float,
        right: Floats,
        inputs: bool,
    ) -> None:
        super().__init__()
        self._degree, self._variance, self._offset, self._normalize = degree, variance, offset, normalize
        self._origin, right = origin, shifted(right, origin)
        self._right, self._inverse_norms = (
            unit_rows(right, overwrite=bool(origin)) if normalize else (right, np.empty(0, right.dtype))
        )
        self._scaled_right = self._right * right.dtype.type(1.0 / (1.0 + offset))
        self._shift = offset / (1.0 + offset)
        self._slopes = Scratch()
        self._value, self._by_offset = 0.0, 0.0
        self._moment = np.zeros(right.shape) if inputs else None

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""
        np.matmul(self._prepared(left), self._scaled_right.T, out=out)
        polynomial_tile(out, self._shift, self._degree, self._variance)

    def contract(self, left: Floats, weights: Floats) -> None:
        """Add this tile's share to both gradients."""
        prepared = self._prepared(left)
        slopes = self._slopes.take(weights.shape, left.dtype)
        np.matmul(prepared, self._scaled_right.T, out=slopes)
        value, by_offset = contract_polynomial_tile(
            slopes, weights, self._shift, self._degree, self._variance
        )
        self._value += value
        self._by_offset += by_offset
        if self._moment is not None:
            self._moment += slopes.T @ prepared

    def parameter_gradient(self) -> FloatArray:
        """For log variance and log offset."""
        return np.array([self._value, self._shift * self._by_offset])

    def input_gradient(self) -> FloatArray:
        """For each right row and feature; made with ``inputs`` only."""
        if self._moment is None:
            raise RuntimeError("these tiles were made without input gradients")
        gradient = self._moment / (1.0 + self._offset)
        if not self._normalize:
            return gradient
        unit = self._right.astype(np.float64)
        gradient -= unit * np.einsum("jq,jq->j", unit, gradient)[:, None]
        return gradient * self._inverse_norms[:, None]

    def _prepared(self, left: Floats) -> Floats:
        left = shifted(left, self._origin)
        return unit_rows(left, overwrite=bool(self._origin))[0] if self._normalize else left
