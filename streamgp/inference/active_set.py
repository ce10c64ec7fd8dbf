"""The IVM's representation of a posterior: factor L and sites of the active set, stubs M of the candidates.

Both records own buffers with room for more active rows; the functions here fill them in place and return the
record that counts what is filled.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri

from streamgp.arrays import BoolArray, FloatArray, Floats, IntArray
from streamgp.inference.ep import active_marginals
from streamgp.inference.sites import Sites, head_from_factor, scaled_cholesky
from streamgp.kernels import Kernel
from streamgp.numerics.projection import add_row_moments, multiply_triangle
from streamgp.passes.blas import single_threaded_blas
from streamgp.passes.run import available_threads
from streamgp.posterior import Snapshot

_TILE_VALUES = 2**17


def tile_rows(n_new: int) -> int:
    """Candidates that are brought up to date at a time: bounds the scratch beside their stubs."""
    return min(max(_TILE_VALUES // n_new, 128), 4096)


@dataclass(frozen=True, eq=False)
class ActiveSet:
    """Rows in the model, in the order of their inclusion.

    L factor, L Lᵀ = 1 + S K_II S with S = diag(√π);  β projected_targets, L⁻¹ S⁻¹ b
    ω weights: how often a row counts; its site is that of so many equal rows together.
    Shapes: rows, targets, precision, precision_mean, projected_targets, weights (capacity,), inputs
    (capacity, p), factor (capacity, capacity); the first ``count`` are filled.
    """

    rows: IntArray
    inputs: FloatArray
    targets: FloatArray
    precision: FloatArray
    precision_mean: FloatArray
    factor: FloatArray
    projected_targets: FloatArray
    weights: FloatArray
    count: int

    @staticmethod
    def empty(capacity: int, n_features: int) -> ActiveSet:
        """No row yet, room for ``capacity``."""
        return ActiveSet(
            rows=np.full(capacity, -1, np.int64),
            inputs=np.empty((capacity, n_features)),
            targets=np.zeros(capacity),
            precision=np.zeros(capacity),
            precision_mean=np.zeros(capacity),
            factor=np.zeros((capacity, capacity)),
            projected_targets=np.zeros(capacity),
            weights=np.ones(capacity),
            count=0,
        )

    def with_capacity(self, capacity: int) -> ActiveSet:
        """The same rows and sites with room for ``capacity``; the factor is to be refreshed."""
        larger, d = ActiveSet.empty(capacity, self.inputs.shape[1]), self.count
        for name in ("rows", "inputs", "targets", "precision", "precision_mean", "weights"):
            getattr(larger, name)[:d] = getattr(self, name)[:d]
        return replace(larger, count=d)

    def trimmed(self) -> ActiveSet:
        """Rows and sites alone, without room for more: what is kept between two stages."""
        return replace(self.with_capacity(self.count), factor=np.zeros((0, 0)))

    @property
    def sites(self) -> Sites:
        """Sites of the active rows."""
        return Sites(self.precision[: self.count], self.precision_mean[: self.count])

    def snapshot(self, kernel: Kernel) -> Snapshot:
        """The posterior by the factor as it is.  Cost: ⅓ d³ flops."""
        d = self.count
        factor = self.factor[:d, :d].copy(order="F")
        head = head_from_factor(factor, np.sqrt(self.precision[:d]), self.projected_targets[:d].copy())
        return Snapshot(kernel, self.inputs[:d], (head,))


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows that may enter: J. A place in it is a slot; slots are in the order of rows.

    M stubs, L⁻¹ S K_IJ transposed: h = M β,  a = k(x, x) − row sums of M²
    Shapes: rows, targets, weights, prior_variance, mean, variance, available (s,), inputs (s, p),
    stubs (s, capacity).
    Inputs and stubs are of one type, float32 where that is enough; all else is float64.
    """

    rows: IntArray
    inputs: Floats
    targets: FloatArray
    prior_variance: FloatArray
    stubs: Floats
    mean: FloatArray
    variance: FloatArray
    available: BoolArray
    weights: FloatArray

    @staticmethod
    def new(
        rows: IntArray,
        inputs: Floats,
        targets: FloatArray,
        kernel: Kernel,
        capacity: int,
        weights: FloatArray | None = None,
    ) -> Candidates:
        """Candidates before any inclusion, with the prior's marginals; each counts once, or as weighted."""
        order = np.argsort(rows, kind="stable")
        if not np.array_equal(order, np.arange(len(rows))):  # inputs are large: not copied without need
            inputs = np.ascontiguousarray(inputs[order])
        prior = kernel.diagonal(inputs)
        return Candidates(
            rows[order],
            inputs,
            targets[order],
            prior,
            np.empty((len(rows), capacity), inputs.dtype),
            np.zeros(len(rows)),
            prior.copy(),
            np.ones(len(rows), np.bool_),
            np.ones(len(rows)) if weights is None else weights[order],
        )

    def window(self, slots: IntArray, capacity: int) -> Candidates:
        """Copies of some slots, with room for ``capacity`` active rows."""
        stubs = np.empty((len(slots), capacity), self.stubs.dtype)
        filled = min(capacity, self.stubs.shape[1])
        stubs[:, :filled] = self.stubs[slots, :filled]
        return Candidates(
            rows=self.rows[slots],
            inputs=self.inputs[slots],
            targets=self.targets[slots],
            prior_variance=self.prior_variance[slots],
            stubs=stubs,
            mean=self.mean[slots],
            variance=self.variance[slots],
            available=self.available[slots],
            weights=self.weights[slots],
        )


def include(
    active: ActiveSet,
    window: Candidates,
    slot: int,
    kernel_column: Floats,
    precision: float,
    precision_mean: float,
) -> ActiveSet:
    """Move a candidate into the active set and update all candidates of the window, in place.

    l = √π M[slot],  ℓ² = 1 + π a,  new column of M: μ = (√π k_J − M l)/ℓ
    new entry of β: α ℓ/√π with α = (b − π h)/(1 + π a);  a −= μ²,  h += β μ
    (π, b) the candidate's site; h, a its marginal; k_J kernel_column of the window.
    Shapes: window of s candidates, kernel_column (s,).  Cost: O(s d), a product bound by memory.
    Hazard: ℓ² ≥ 1 in exact arithmetic; a is a difference, clamped at zero.
    Source: [IVM2006] C.1, [IVM2003] eq. 3.  Oracle: tests/reference/ivm_dense.py, and :func:`catch_up`.
    """
    d = active.count
    root = np.sqrt(precision)
    length = np.sqrt(1.0 + precision * window.variance[slot])
    row = root * window.stubs[slot, :d]
    slope = (precision_mean - precision * window.mean[slot]) / (1.0 + precision * window.variance[slot])
    weight = slope * length / root

    active.rows[d], active.inputs[d] = window.rows[slot], window.inputs[slot]
    active.targets[d], active.weights[d] = window.targets[slot], window.weights[slot]
    active.precision[d], active.precision_mean[d] = precision, precision_mean
    active.factor[d, :d], active.factor[d, d] = row, length
    active.projected_targets[d] = weight

    explained = window.stubs[:, :d] @ row.astype(window.stubs.dtype, copy=False)
    column = (root * kernel_column.astype(np.float64, copy=False) - explained) / length
    window.stubs[:, d] = column
    np.maximum(window.variance - column * column, 0.0, out=window.variance)
    window.mean[:] += weight * column
    window.available[slot] = False
    return replace(active, count=d + 1)


def catch_up(active: ActiveSet, candidates: Candidates, kernel: Kernel, since: int) -> None:
    """Bring candidates that know the first ``since`` active rows up to date with all, in place.

    M_new = (K_J,new S_new − M_old L_new,oldᵀ) L_new,new⁻ᵀ,  h += M_new β_new,  a −= row sums of M_new²
    With ``since=0`` this is the refresh from scratch.
    Shapes: s candidates, d active rows, k = d − since new ones.  Cost: O(s k (p + d)), matrix products.
    Hazard: L_new,new is inverted, because SciPy's triangular solver keeps the GIL, and products let tiles run
    side by side; all its singular values are at least 1.  Source: [IVM2006] C.1, k inclusions at once.
    """
    d = active.count
    if d == since or len(candidates.rows) == 0:
        return
    if since == 0:
        candidates.mean[:] = 0.0
        candidates.variance[:] = candidates.prior_variance
    new, size, dtype = slice(since, d), tile_rows(d - since), candidates.stubs.dtype
    inverse, _ = dtrtri(active.factor[new, new].T, lower=0)
    inverse = np.ascontiguousarray(inverse, dtype)
    root = np.sqrt(active.precision[new]).astype(dtype)
    inputs, known = active.inputs[new].astype(dtype), active.factor[new, :since].T.astype(dtype)

    def update(start: int) -> None:
        tile = slice(start, start + size)
        block = kernel.block(candidates.inputs[tile], inputs)
        block *= root
        block -= candidates.stubs[tile, :since] @ known
        multiply_triangle(block, inverse, transposed=False)
        candidates.stubs[tile, new] = block
        explained = np.zeros(len(block))
        add_row_moments(block, active.projected_targets[new], candidates.mean[tile], explained)
        candidates.variance[tile] = np.maximum(candidates.variance[tile] - explained, 0.0)

    # Tiles touch different rows, so their order, and the number of threads, do not change a bit.
    with single_threaded_blas(), ThreadPoolExecutor(available_threads()) as pool:
        list(pool.map(update, range(0, len(candidates.rows), size)))


def refresh_factor(active: ActiveSet, kernel: Kernel) -> None:
    """Factor and projected targets of the active set from scratch, in place.

    L Lᵀ = 1 + S K_II S,  β = L⁻¹ S⁻¹ b.  Cost: O(d³).  Source: [IVM2006] eq. 4.
    """
    d = active.count
    root = np.sqrt(active.precision[:d])
    gram = kernel.gram(active.inputs[:d]).astype(np.float64, copy=False)
    active.factor[:d, :d] = scaled_cholesky(gram, root)
    scaled_targets = np.divide(active.precision_mean[:d], root, out=np.zeros(d), where=root > 0)
    active.projected_targets[:d] = solve_triangular(
        active.factor[:d, :d], scaled_targets, lower=True, check_finite=False
    )


def left_out_marginals(
    active: ActiveSet, kernel: Kernel, rows: IntArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Marginals of rows (in ascending order), those of active ones without their own site.

    a₋ = a/q,  h₋ = h − a₋ v  for active rows; h, a as given for all others, whose site was never set
    What is given for active rows does not matter: white noise ties an active row to its own latent value,
    which the block of a snapshot cannot know.
    Shapes: (s,), (s,).  Cost: O(d³).  Source: [IVM2006] B.1.  Oracle: tests/reference/gp_dense.py
    """
    mean, variance = mean.copy(), variance.copy()
    included = active.rows[: active.count]
    slots = np.minimum(np.searchsorted(rows, included), len(rows) - 1)
    here = rows[slots] == included
    if here.any():
        gram = kernel.gram(active.inputs[: active.count]).astype(np.float64, copy=False)
        found = active_marginals(gram, active.sites)
        mean[slots[here]], variance[slots[here]] = found.cavity_mean[here], found.cavity_variance[here]
    return mean, variance
