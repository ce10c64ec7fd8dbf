"""Tiles of stationary kernels: one matrix product and one sweep; a second product for their gradients."""

from __future__ import annotations

import math

import numpy as np

from streamgp.arrays import BoolArray, FloatArray, Floats
from streamgp.kernels.tiles import Scratch, Tiles
from streamgp.numerics.kernel_contractions import contract_close_pairs, contract_stationary_tile
from streamgp.numerics.kernel_sweeps import (
    MATERN12,
    RBF,
    rbf_and_linear_tile,
    refine_tile,
    scale_rows,
    stationary_tile,
)

_TOLERANCE = {4: 4e-6, 8: 2e-11}
"""Error of a kernel value, relative to its variance, that may be left by the difference of norms."""


class StationaryTiles(Tiles):
    """Values and gradients of v f(s), s = −½ Σ ((x − z)/lengthscale)².

    s = x̃ᵀz̃ − ½|x̃|² − ½|z̃|² with x̃ = (x − mean of right)/lengthscale
    ∂/∂log lengthscale_q: Σ G δ_q² = Σ_i G_i· x̃_iq² + Σ_j G_·j z̃_jq² − 2 Σ_j (Gᵀ X̃)_jq z̃_jq,  δ = x̃ − z̃
    ∂/∂z_jq: Σ_i G_ij δ_q / lengthscale_q = ((Gᵀ X̃)_jq − G_·j z̃_jq) / lengthscale_q
    G = weights ∘ ∂k/∂s; G_i·, G_·j its row and column sums
    Cost: one product (c, p, d) for values; one more for gradients if per feature, or for inputs.
    Hazard: these are differences. Centring removes a common offset; pairs that still are close compared with
    their norms are computed from their differences, slower but exact.
    Source: [IVM2006] appendix C.2.1.
    """

    def __init__(
        self,
        family: int,
        variance: float,
        lengthscale: float | tuple[float, ...],
        right: Floats,
        inputs: bool,
    ) -> None:
        super().__init__()
        n_active, n_features = right.shape
        self._family, self._variance, self._right = family, variance, right
        self._per_feature = isinstance(lengthscale, tuple)
        self._inverse_scale = np.broadcast_to(1.0 / np.asarray(lengthscale), n_features).astype(right.dtype)
        # The sum over max(d, 1) is the mean, and zero where there are no rows.
        self._center = (right.sum(axis=0, dtype=np.float64) / max(n_active, 1)).astype(right.dtype)
        self._right_by_center = right @ self._center
        self._scaled_right = np.empty_like(right)
        self._right_half_norms = np.empty(n_active, right.dtype)
        scale_rows(right, self._center, self._inverse_scale, self._scaled_right, self._right_half_norms)
        self._left_scratch, self._product_scratch = Scratch(), Scratch()
        self._value, self._stretch = 0.0, 0.0
        self._with_moments = inputs or self._per_feature
        if self._with_moments:
            self._moment = np.zeros((n_active, n_features))
            self._column_sums = np.zeros(n_active)
            self._squares = np.zeros(n_features)
            self._close_inputs = np.zeros((n_active, n_features))

    def fill(self, left: Floats, out: Floats) -> None:
        """Assign kernel values to out."""
        _, left_half, right_half, _ = self._products(left, out)
        stationary_tile(out, left_half, right_half, self._family, self._variance)

    @property
    def shares_products(self) -> bool:
        """Whether :meth:`fill_with_linear` can be used: an RBF with one lengthscale."""
        return self._family == RBF and not self._per_feature

    def fill_with_linear(self, left: Floats, out: Floats, linear: float) -> bool:
        """Assign the values of this kernel plus ``linear`` x·z, from one matrix product; or say it cannot.

        x·z = lengthscale² x̃ᵀz̃ + m·x + m·z − |m|², m the mean of the right rows
        It cannot where products had to be refined: then what is left in out is of no use.
        """
        _, left_half, right_half, refined = self._products(left, out)
        if refined is not None:
            return False
        right_offset = linear * self._right_by_center
        left_offset = linear * (left @ self._center - self._center @ self._center)
        slope = linear / float(self._inverse_scale[0]) ** 2 if len(self._inverse_scale) else 0.0
        rbf_and_linear_tile(
            out,
            (left_half, right_half),
            (left_offset.astype(out.dtype), right_offset.astype(out.dtype)),
            self._variance,
            slope,
        )
        return True

    def contract(self, left: Floats, weights: Floats) -> None:
        """Add this tile's share to both gradients."""
        slopes = self._product_scratch.take(weights.shape, left.dtype)
        scaled, left_half, right_half, refined = self._products(left, slopes)
        row_sums = np.empty(left.shape[0], left.dtype)
        column_sums = np.zeros(weights.shape[1], left.dtype)
        value, stretch = contract_stationary_tile(
            slopes, weights, left_half, right_half, self._family, self._variance, row_sums, column_sums
        )
        self._value += value
        self._stretch += stretch
        if not self._with_moments:
            return
        if refined is not None and refined.any():
            contract_close_pairs(
                slopes, refined, left, self._right, self._inverse_scale, self._squares, self._close_inputs
            )
            row_sums, column_sums = slopes.sum(axis=1), slopes.sum(axis=0)
        self._moment += slopes.T @ scaled
        self._column_sums += column_sums
        self._squares += row_sums @ (scaled * scaled)

    def parameter_gradient(self) -> FloatArray:
        """For log variance, then log lengthscale: one or one for each feature."""
        if not self._per_feature:
            return np.array([self._value, self._stretch])
        right = self._scaled_right.astype(np.float64)
        cross = np.einsum("jq,jq->q", self._moment, right)
        return np.concatenate(
            [[self._value], self._squares + self._column_sums @ (right * right) - 2.0 * cross]
        )

    def input_gradient(self) -> FloatArray:
        """For each right row and feature; made with ``inputs`` only."""
        by_scaled = self._moment - self._column_sums[:, None] * self._scaled_right + self._close_inputs
        return by_scaled * self._inverse_scale.astype(np.float64)

    def _products(self, left: Floats, out: Floats) -> tuple[Floats, Floats, Floats, BoolArray | None]:
        """Inner products in out, the half norms still to be subtracted, and where that was refined."""
        scaled = self._left_scratch.take(left.shape, left.dtype)
        left_half = np.empty(left.shape[0], left.dtype)
        scale_rows(left, self._center, self._inverse_scale, scaled, left_half)
        np.matmul(scaled, self._scaled_right.T, out=out)
        # Rounding errors of p products add up like a random walk.
        unit = float(np.finfo(left.dtype).eps) * (1.0 + 0.25 * math.sqrt(left.shape[1]))
        error = unit * float(left_half.max(initial=0.0) + self._right_half_norms.max(initial=0.0))
        tolerance = _TOLERANCE[left.dtype.itemsize]
        # At its kink the exponential kernel turns any error into its root.
        kink = self._family == MATERN12
        if not error > (0.0 if kink else tolerance):
            return scaled, left_half, self._right_half_norms, None
        # |∂k/∂s| ≤ 3v eˢ (RBF), 3v exp(−√(−2.5 s)) (Matern), v exp(−√(−2s)) if s < −½ (MATERN12): beyond this
        # reach an error e is harmless.
        log_excess = math.log(3.0 * error / tolerance)
        if kink:
            reach = 0.5 * max(log_excess, 1.0) ** 2
        else:
            reach = log_excess if self._family == RBF else log_excess * log_excess / 2.5
        refined = np.empty(out.shape, np.bool_)
        refine_tile(
            out, left_half, self._right_half_norms, left, self._right, self._inverse_scale,
            (unit, tolerance, reach, float(kink)), refined,
        )  # fmt: skip
        return scaled, np.zeros_like(left_half), np.zeros_like(self._right_half_norms), refined
