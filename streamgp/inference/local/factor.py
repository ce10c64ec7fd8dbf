"""A block and its sites: the factor from which moments, marginals and predictions follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import FloatArray, Floats
from streamgp.inference.local.prior import BlockPrior
from streamgp.inference.local.workspace import Workspace
from streamgp.inference.sites import Sites
from streamgp.numerics import factors

RESOLVED = 1e-6
"""Of a precision times a variance: from here on a difference from 1 has digits enough to be divided by it."""
MOST_ROUNDED = 1e4
"""Trace of B up to which float32 serves for its factor: B ≥ 1, so B⁻¹ is wrong by 6e-8 times that at most."""


@dataclass(frozen=True, eq=False)
class BlockFactor:
    """R + T⁻¹ of a block, T = diag(τ), in a form that allows τ = 0; frozen.

    S = diag(√τ) root;  L Lᵀ = B = 1 + S R S, lower;  log|B|
    e = (1 + T R)⁻¹ ρ own_weights: the dual weights of the block if u were 0
    Shapes: lower (b, b), zero above, float64 or float32; vectors (b,), float64.
    """

    prior: BlockPrior
    sites: Sites
    root: FloatArray
    lower: Floats
    log_determinant: float
    own_weights: FloatArray


def factor_block(
    prior: BlockPrior, sites: Sites, room: Workspace | None = None, dtype: DTypeLike = np.float64
) -> BlockFactor:
    """Factor of a block for sites that count as they are (times their weight already); L is in ``room``.

    L has the given type, but float64 where B is so far from 1 that float32 would lose much of its inverse.
    e = ρ₀ + S B⁻¹ (S⁻¹ (ρ − ρ₀) − S R ρ₀),  ρ₀ = ρ where τ R_ii < 1e-6, else 0
    Shapes: prior of b rows, sites (b,).  Cost: ⅓ b³ flops; memory: one matrix (b, b).
    Hazard: B ≥ 1. Of the two ways to write e, ρ − S B⁻¹ S R ρ cancels for sharp sites, S B⁻¹ S⁻¹ ρ divides by
    zero for flat ones; each row goes the way that does neither.
    Oracle: tests/reference/pic_dense.py
    """
    precision, precision_mean = sites
    residual = prior.residual
    root = np.sqrt(precision)
    own_precision = precision * residual.diagonal()
    if len(root) + float(own_precision.sum()) > MOST_ROUNDED:
        dtype = np.float64
    lower = (Workspace() if room is None else room).take("lower", residual.shape, dtype)
    factors.scaled_identity_plus(residual, root, lower)
    factors.cholesky(lower)
    log_determinant = 2.0 * float(np.log(lower.diagonal().astype(np.float64)).sum())
    is_sharp = own_precision >= RESOLVED
    flat = np.where(is_sharp, 0.0, precision_mean)
    scaled = np.divide(precision_mean, root, out=np.zeros_like(root), where=is_sharp)
    if flat.any():
        scaled -= root * (residual @ flat)
    column = scaled[:, None].astype(dtype, copy=False)
    factors.solve_lower(lower, column)
    factors.solve_lower(lower, column, transposed=True)
    return BlockFactor(prior, sites, root, lower, log_determinant, flat + root * column[:, 0])


class Moments(NamedTuple):
    """What a block adds to the posterior of u: matrix Yᵀ Y (m, m) to A, vector Wᵀ e (m,) to r; float64."""

    matrix: FloatArray
    vector: FloatArray


def scaled_features(factor: BlockFactor, out: Floats) -> Floats:
    """S W, in the type of ``out`` (b, m), which is filled and returned."""
    factors.scale_rows(factor.prior.features, factor.root, out)
    return out


def projected_features(
    factor: BlockFactor, dtype: DTypeLike = np.float64, room: Workspace | None = None
) -> Floats:
    """Y = L⁻¹ S W, by products of the given type.  Shapes: (b, m).  Cost: b² m flops."""
    room = Workspace() if room is None else room
    rows = scaled_features(factor, room.take("solved", factor.prior.features.shape, dtype))
    factors.solve_lower(room.cast("triangle", factor.lower, dtype), rows)
    return rows


def block_moments(
    factor: BlockFactor, dtype: DTypeLike = np.float64, room: Workspace | None = None
) -> Moments:
    """The block's share of A = 1 + Σ Yᵀ Y and r = Σ Wᵀ e, by products of the given type.

    Yᵀ Y = Wᵀ (R + T⁻¹)⁻¹ W,  Wᵀ e = Wᵀ (1 + T R)⁻¹ ρ
    Shapes: (m, m), (m,).  Cost: b² m + b m² flops.
    """
    projected = projected_features(factor, dtype, room)
    matrix = (projected.T @ projected).astype(np.float64, copy=False)
    return Moments(matrix, factor.own_weights @ factor.prior.features)


def factor_bytes(rows: int, itemsize: int) -> int:
    """Upper bound of the bytes of :func:`factor_block`, its result included, the prior not.

    Where factors may be rounded, room may hold one of either type.
    """
    return rows * rows * (8 + (itemsize if itemsize < 8 else 0)) + 104 * rows


def moments_bytes(n_inducing: int, itemsize: int) -> int:
    """Upper bound of the bytes of :func:`block_moments` beside what marginals take: its result."""
    return n_inducing * n_inducing * (8 + (itemsize if itemsize < 8 else 0)) + 8 * n_inducing
