"""A block of rows before any target is seen: what inducing inputs explain of it, and what they leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.arrays import Array, FloatArray
from streamgp.inference.inducing.basis import Basis, whiten_block, whiten_bytes
from streamgp.inference.local.workspace import Workspace
from streamgp.kernels import Kernel
from streamgp.numerics import factors

PANEL_ROWS = 128
"""Rows of a kernel block between rows of one block that are computed at a time."""


class BlockPrior(NamedTuple):
    """f_b = W u + r,  u ~ N(0, 1),  r ~ N(0, R): W features (b, m), R residual (b, b), both float64.

    Neither depends on sites: where memory allows, a block's prior can be held from sweep to sweep.
    """

    features: FloatArray
    residual: FloatArray


def block_prior(basis: Basis, inputs: Array, room: Workspace | None = None) -> BlockPrior:
    """W and R = K_bb − W Wᵀ of a block's rows, in ``room`` if that is given.

    Shapes: inputs (b, p) → (b, m), (b, b); the basis in float64.
    Cost: 2 p (m + b) + m² + b m flops and m + b exponentials a row.
    Hazard: R is a difference of matrices that are nearly equal where inducing inputs are dense, and it meets
    site precisions of 1/noise; so W and R are float64, whatever the precision of later products.
    White noise of the kernel is on the diagonal of R, as it is in the residual variance of FITC.
    Source: [PIC2007].  Oracle: tests/reference/pic_dense.py
    """
    room = Workspace() if room is None else room
    rows = np.ascontiguousarray(inputs, basis.dtype)
    kernel, count = basis.kernel, len(rows)
    cross = basis.prepared.block(rows, out=room.take("features", (count, basis.size)))
    features, residual_variance = whiten_block(basis, cross, kernel.diagonal(rows))
    residual = room.take("residual", (count, count))
    for stop in range(PANEL_ROWS, count + PANEL_ROWS, PANEL_ROWS):
        # The lower triangle is all that is read: rows of a panel meet those before them and each other.
        start, stop = stop - PANEL_ROWS, min(stop, count)
        panel = room.take("panel", (stop - start, stop), np.float64)
        residual[start:stop, :stop] = kernel.block(rows[start:stop], rows[:stop], out=panel)
    factors.subtract_gram(residual, features)
    np.fill_diagonal(residual, residual_variance)
    return BlockPrior(features, residual)


def first_rows(prior: BlockPrior, count: int) -> BlockPrior:
    """The prior of the first rows alone; R is copied."""
    return BlockPrior(prior.features[:count], np.ascontiguousarray(prior.residual[:count, :count]))


def prior_bytes(kernel: Kernel, rows: int, n_inducing: int, n_features: int) -> int:
    """Upper bound of the bytes that :func:`block_prior` takes, its result included."""
    copies = 8 * rows * n_features
    block = 8 * rows * rows + kernel.workspace_bytes(rows, rows, n_features, 8)
    return copies + block + whiten_bytes(kernel, rows, n_inducing, n_features, 8)
