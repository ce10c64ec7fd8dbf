"""The mode of all latent functions, seen through inducing inputs: means alone, without any spread.

f_c = wᵀu_c,  u_c ~ N(0, 1) for each of k functions;  the mode maximises Σ log p(y|f) − ½ Σ |u_c|²
Its cost grows with m k for each row, not with m². In a pass the kernel block is met by weights T_u U and is
never whitened; rows that fit into memory are whitened once and then met as often as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from streamgp.arrays import Array, FloatArray
from streamgp.data import Targets
from streamgp.data.targets import head_targets
from streamgp.inference.inducing.basis import (
    Approximation,
    Basis,
    inverse_factor,
    whiten_bytes,
)
from streamgp.inference.inducing.heads import RowWeights
from streamgp.inference.inducing.held import HeldRows
from streamgp.inference.inducing.updates import update_rows
from streamgp.inference.sites import Sites
from streamgp.kernels import Kernel
from streamgp.likelihoods import JointLikelihood, Likelihood, ModeTerms
from streamgp.numerics.projection import weighted_moments

CORRECTIONS = 20
"""Pairs that L-BFGS remembers."""
TILE_BYTES, FEWEST_TILE_ROWS = 2 * 2**20, 64
"""Of the kernel block of a pass: caches hold it, and no block of rows asks for its memory anew."""


@dataclass(frozen=True, eq=False)
class PointTerms:
    """What a likelihood says about rows at given latent values, from targets as they are encoded.

    A joint likelihood takes codes of classes as they are; one function of its own has them as ±1.
    """

    likelihood: JointLikelihood | Likelihood
    targets: Targets

    def __call__(
        self, encoded: FloatArray, latent: Array, residual_variance: FloatArray | None = None
    ) -> ModeTerms:
        """Log density, gradient and curvature, without residual variance.  Shapes: (c,), (c, k)."""
        if isinstance(self.likelihood, JointLikelihood):
            return self.likelihood.mode_terms(encoded, latent)
        own = head_targets(self.targets, encoded, 0)
        return self.likelihood.mode_terms(own, latent.astype(np.float64))


@dataclass(frozen=True, eq=False)
class HeadTerms:
    """What one head's likelihood says about rows at given values s of wᵀu, residual variance left to it.

    log ∫ N(f; s, D) p(y|f)^α df / α,  D = residual · D0,  α power: at its maximum sites of expectation
    propagation are those of rows whose posterior has no variance.
    """

    likelihood: Likelihood
    targets: Targets
    head: int
    approximation: Approximation

    def __call__(
        self, encoded: FloatArray, latent: Array, residual_variance: FloatArray | None = None
    ) -> ModeTerms:
        """Log density, gradient and curvature; a curvature is none below zero.  Shapes: (c,), (c, 1)."""
        assert residual_variance is not None
        power, nothing = self.approximation.power, np.zeros(len(encoded))
        found = update_rows(
            self.likelihood,
            head_targets(self.targets, encoded, self.head),
            Sites(nothing, nothing),
            latent[:, 0].astype(np.float64),
            nothing,
            self.approximation.residual * residual_variance,
            power,
            0.0,
        )
        slope, curvature = found.slope[:, None] / power, found.curvature[:, None] / power
        return ModeTerms(found.evidence, slope, curvature)


class ModeSums(NamedTuple):
    """Sums over rows: log p(y|f), and its gradient by the weights that rows are met by, (m, k)."""

    log_density: float
    gradient: FloatArray


def merge_modes(earlier: ModeSums, later: ModeSums) -> ModeSums:
    """Sums over the rows of both; the array of ``earlier`` is added to in place."""
    gradient = earlier.gradient
    gradient += later.gradient
    return ModeSums(earlier.log_density + later.log_density, gradient)


def _mode_sums(
    block: Array,
    weights: Array,
    terms: PointTerms | HeadTerms,
    encoded: FloatArray,
    weight: FloatArray,
    residual_variance: FloatArray | None = None,
) -> ModeSums:
    """Σ ω log p(y|f),  Σ b ω (d log p/df)ᵀ,  f = Vᵀb;  b rows of block (c, m), V weights (m, k)."""
    found = terms(encoded, block @ weights, residual_variance)
    gradient = block.T @ (weight[:, None] * found.gradient).astype(block.dtype)
    return ModeSums(float(weight @ found.log_density), gradient.astype(np.float64))


@dataclass(frozen=True, eq=False)
class ModeStep:
    """What rows add to the log density and its gradient, as the step of a pass.

    f = K V,  V = T_u U;  Σ ω log p(y|f),  Σ Kᵀ ω (d log p/df)
    Shapes: weights V (m, k), in the type of the basis.  Cost: 2 p m + 4 m k flops a row.
    Hazard: V is large where K_uu is nearly singular: in float32 f errs by about 3e-3.
    """

    basis: Basis
    weights: Array
    terms: PointTerms
    row_weights: RowWeights

    def __call__(
        self, start: int, features: Array, encoded: FloatArray, sites: FloatArray | None
    ) -> tuple[None, list[ModeSums]]:
        """The sums of a block, tile by tile; there are no sites."""
        weight = self.row_weights(start, encoded)
        size = max(FEWEST_TILE_ROWS, TILE_BYTES // (self.weights.itemsize * len(self.weights)))

        def sums(begin: int) -> ModeSums:
            tile = slice(begin, begin + size)
            block = self.basis.prepared.block(features[tile])
            return _mode_sums(block, self.weights, self.terms, encoded[tile], weight[tile])

        return None, [reduce(merge_modes, map(sums, range(0, len(features), size)))]


def search_bytes(n_inducing: int, n_features: int, n_functions: int, itemsize: int) -> int:
    """Upper bound of the bytes of a search for the mode beside its rows and its tasks.

    The basis in both types and a copy of it, coordinates and their sums; what L-BFGS remembers; inputs.
    """
    matrices = n_inducing * n_inducing * (5 * 8 + itemsize)
    return matrices + 8 * n_inducing * ((2 * CORRECTIONS + 20) * n_functions + 2 * n_features)


def mode_block_bytes(
    kernel: Kernel, rows: int, n_inducing: int, n_features: int, n_functions: int, itemsize: int
) -> int:
    """Temporary bytes of a block of a pass, rows that are held included: kernel, latent values, gradients."""
    own = n_functions * (rows * (8 + 2 * itemsize) + n_inducing * (2 * itemsize + 16))
    return whiten_bytes(kernel, rows, n_inducing, n_features, itemsize) + own


class Mode(NamedTuple):
    """Whitened weights U (m, k) at the maximum, its value with the log prior, and how it was found."""

    weights: FloatArray
    value: float
    evaluations: int
    converged: bool


def find_mode(
    rows: Sequence[HeldRows],
    terms: PointTerms | HeadTerms,
    *,
    n_functions: int,
    variance: float = 1.0,
    start: FloatArray | None = None,
    scale: FloatArray | None = None,
    most_steps: int = 100,
    tolerance: float = 1e-9,
    workers: int = 1,
) -> Mode:
    """The mode of rows in memory by L-BFGS: u ~ N(0, variance), features as given.

    It ends when a step improves the value by less than ``tolerance`` of it. ``scale`` R: coordinates Z, with
    U = start + R Z, in which the problem is round.
    Shapes: start (m, k), scale (m, m).  Cost: 4 n m k flops an evaluation; blocks run side by side.
    Oracle: a dense optimiser, tests/inference/test_mode.py
    """
    origin = np.zeros((rows[0].features.shape[1], n_functions)) if start is None else start

    def objective(vector: FloatArray) -> tuple[float, FloatArray]:
        u = _moved(origin, scale, vector)
        sums = _held_sums(rows, terms, u.astype(rows[0].dtype), pool)
        slope = u / variance - sums.gradient
        value = float(np.sum(u * u)) / (2.0 * variance) - sums.log_density
        return value, (slope if scale is None else scale.T @ slope).ravel()

    with ThreadPoolExecutor(workers) if workers > 1 and len(rows) > 1 else nullcontext() as pool:
        found = minimize(
            objective,
            np.zeros(origin.size),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": most_steps,
                "maxfun": 2 * most_steps,
                "maxcor": CORRECTIONS,
                "ftol": tolerance,
                "gtol": 0.0,
            },
        )
    return Mode(_moved(origin, scale, found.x), -float(found.fun), int(found.nfev), found.status != 1)


def _moved(origin: FloatArray, scale: FloatArray | None, vector: FloatArray) -> FloatArray:
    step = vector.reshape(origin.shape)
    return origin + (step if scale is None else scale @ step)


def _held_sums(
    rows: Sequence[HeldRows],
    terms: PointTerms | HeadTerms,
    weights: Array,
    pool: ThreadPoolExecutor | None,
) -> ModeSums:
    def one(block: HeldRows) -> ModeSums:
        return _mode_sums(
            block.whitened, weights, terms, block.encoded, block.weights, block.residual_variance
        )

    return reduce(merge_modes, map(one, rows) if pool is None else pool.map(one, rows))


def mode_scale(
    rows: Sequence[HeldRows],
    terms: PointTerms,
    weights: FloatArray,
    of_functions: Callable[..., FloatArray] = np.mean,
) -> FloatArray:
    """R, upper triangular: with U = R Z the problem is round, where rows like these decide about it.

    R Rᵀ = (1 + Σ ω h w wᵀ)⁻¹,  h the mean (or, for steps without a line search, largest) curvature of a row's
    functions
    Shapes: weights U (m, k) → (m, m).  Cost: n m² + m³ flops.
    """
    matrix = np.eye(len(weights))
    for block in rows:
        latent = block.whitened @ weights.astype(block.dtype)
        curvature = block.weights * of_functions(terms(block.encoded, latent).curvature, axis=1)
        matrix += weighted_moments(block.whitened, curvature)
    return inverse_factor(matrix)
