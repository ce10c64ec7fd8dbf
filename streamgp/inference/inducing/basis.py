"""Rows seen through the inducing inputs: whitened features and what they leave unexplained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dtrtri

from streamgp.arrays import Array, FloatArray
from streamgp.errors import ParameterError
from streamgp.kernels import Kernel, Prepared
from streamgp.numerics import projection as numerics

JITTER = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
"""What is added to the diagonal of K_uu, relative to its mean, for passes of either precision."""


@dataclass(frozen=True)
class Approximation:
    """Which of the family of approximations: ``residual`` s in [0, 1] and ``power`` α in (0, 1].

    s multiplies the residual variance D0: 1 is FITC, 0 the projected process (DTC). α is that of power EP:
    1 is EP, towards 0 it becomes variational.
    """

    residual: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.residual <= 1.0:
            raise ParameterError(f"residual is {self.residual!r}; it must be within 0 and 1.")
        if not 0.0 < self.power <= 1.0:
            raise ParameterError(f"power is {self.power!r}; it must be above 0 and at most 1.")


FITC = Approximation()


@dataclass(frozen=True, eq=False)
class Basis:
    """Whitened inducing variables of a prior, frozen.

    K_uu + jitter = L_u L_uᵀ,  T_u = L_u⁻ᵀ,  w = T_uᵀ k_u(x),  u ~ N(0, 1)
    T_u whitening, upper triangular; k_u(x) the kernel with the inducing inputs.
    Shapes: inducing (m, p), whitening (m, m), in the type of the arithmetic of a pass; jitter is relative.
    """

    kernel: Kernel
    inducing: Array
    whitening: Array
    jitter: float

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the arithmetic in a pass."""
        return self.inducing.dtype

    @property
    def size(self) -> int:
        """Number m of inducing inputs."""
        return len(self.inducing)

    @cached_property
    def prepared(self) -> Prepared:
        """The kernel made ready for the inducing inputs: once in a process, for all blocks and threads."""
        return self.kernel.prepared(self.inducing)

    def __reduce__(self) -> tuple[type[Basis], tuple[Any, ...]]:
        """Sent to other processes without what each makes for itself."""
        return Basis, (self.kernel, self.inducing, self.whitening, self.jitter)

    def astype(self, dtype: DTypeLike) -> Basis:
        """The same basis for passes in another precision; its jitter stays."""
        return replace(
            self,
            inducing=self.inducing.astype(dtype, copy=False),
            whitening=self.whitening.astype(dtype, copy=False),
        )


class WhitenedRows(NamedTuple):
    """Rows w of c data rows, (c, m) in the basis's type, and their residual variance D0, (c,)."""

    features: Array
    residual_variance: FloatArray

    def copy(self) -> WhitenedRows:
        """The same rows, for work that overwrites them."""
        return WhitenedRows(self.features.copy(), self.residual_variance)


def make_basis(
    kernel: Kernel,
    inducing: Array,
    precision: DTypeLike = np.float64,
    *,
    jitter: float | None = None,
) -> Basis:
    """The basis of inducing inputs, in float64, with the jitter that passes in ``precision`` need.

    White noise of the kernel is not in K_uu: inducing inputs are values of the function, not rows. It is in
    the residual variance D0 of every row, see :func:`whiten`.
    Shapes: inducing (m, p).  Cost: O(m² p + m³); memory: two matrices (m, m).
    Hazard: inducing inputs that are nearly equal make K_uu singular; the jitter bounds |T_u| by its root.
    """
    relative = JITTER[np.dtype(precision)] if jitter is None else jitter
    inputs = np.ascontiguousarray(inducing, np.float64)
    gram = np.asarray(kernel.smooth_gram(inputs), np.float64)
    gram.flat[:: len(gram) + 1] += relative * float(np.mean(kernel.smooth_diagonal(inputs)))
    return Basis(kernel, inputs, inverse_factor(gram), relative)


def whiten(basis: Basis, features: Array) -> WhitenedRows:
    """Whitened features and residual variances of rows.

    w = T_uᵀ k_u(x),  D0 = k(x, x) − |w|², white noise in it
    Shapes: features (c, p) in the basis's type → (c, m), (c,).  Cost: 2 p m + m² flops a row.
    Hazard: D0 is a difference; rounding below zero is clamped to zero.
    Source: [FITC2007] eq. 3.  Oracle: tests/reference/fitc_dense.py
    """
    block = basis.prepared.block(features)
    return whiten_block(basis, block, basis.kernel.diagonal(features))


def whiten_block(basis: Basis, block: Array, prior: FloatArray) -> WhitenedRows:
    """The same from a kernel block (c, m), which is overwritten, and prior variances (c,)."""
    numerics.multiply_triangle(block, basis.whitening, transposed=False)
    explained = np.empty(len(block))
    numerics.row_squares(block, explained)
    return WhitenedRows(block, np.maximum(prior - explained, 0.0))


def inverse_factor(matrix: FloatArray) -> FloatArray:
    """R = L⁻ᵀ, upper triangular, where L Lᵀ is the matrix, which is overwritten: R Rᵀ is its inverse."""
    # The matrix is symmetric: its transpose is itself, in the order that LAPACK works in.
    factor = cholesky(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)
    return np.ascontiguousarray(inverse.T)


def with_enough_jitter(matrix: FloatArray, smallest: float) -> tuple[FloatArray, float]:
    """The lower Cholesky factor of a matrix that only rounding keeps from being positive definite.

    The least of smallest · {1, 100, 10⁴ …} is added to the diagonal with which it succeeds; the amount is
    returned beside the factor.
    """
    for exponent in range(0, 14, 2):
        jitter = smallest * 10.0**exponent
        shifted = matrix.copy(order="F")
        shifted[np.diag_indices_from(shifted)] += jitter
        try:
            factor = cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        return factor, jitter
    raise LinAlgError("the matrix is not positive definite, by far more than rounding explains")


def whiten_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int, itemsize: int) -> int:
    """Temporary bytes of :func:`whiten`, its result included."""
    block = rows * n_inducing * itemsize
    tile = numerics.workspace_bytes(rows, itemsize)
    return block + tile + 24 * rows + kernel.workspace_bytes(rows, n_inducing, n_features, itemsize)
