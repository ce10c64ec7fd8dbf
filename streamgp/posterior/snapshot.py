"""What a pass carries: active inputs, factor, weights and kernel, frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from streamgp.arrays import Array, FloatArray
from streamgp.kernels import Kernel, Prepared, kernel_from_json
from streamgp.numerics import projection as numerics
from streamgp.posterior.calibration import UNCALIBRATED, Calibration


class Marginals(NamedTuple):
    """Latent marginals of c rows, one column per head: mean and variance (c, heads)."""

    mean: FloatArray
    variance: FloatArray | None


@dataclass(frozen=True, eq=False)
class Head:
    """One latent function: its projection and targets over some of the snapshot's active inputs.

    T projection (d, d) upper triangular, β projected_targets (d,).  For sites (π, b) on the active set, with
    S = diag(√π) and L Lᵀ = 1 + S K S:  T = S L⁻ᵀ,  β = L⁻¹ S⁻¹ b  [IVM2006 eq. 4].
    ``columns`` picks the head's d active inputs out of the snapshot's; ``calibration`` is applied to its
    marginals.
    A ``residual`` s below 1 counts only so much of what the active inputs leave unexplained of a row: then
    a = s (k(x, x) − |T_uᵀ k_I(x)|²) + |Tᵀ k_I(x)|², T_u ``whitening`` (d, d), not needed at s = 0.
    Without a projection the head is a point: ``projected_targets`` are its weights, and a = 0.
    """

    projection: Array | None
    projected_targets: FloatArray
    columns: slice
    calibration: Calibration = UNCALIBRATED
    residual: float = 1.0
    whitening: Array | None = None

    @property
    def weights(self) -> FloatArray:
        """T β: the mean of a row is k(x, active) · weights, O(d) a row."""
        if self.projection is None:
            return self.projected_targets
        weights: FloatArray = self.projection.astype(np.float64) @ self.projected_targets
        return weights

    def astype(self, dtype: DTypeLike) -> Head:
        """The same head for passes in another precision."""
        projection = None if self.projection is None else self.projection.astype(dtype, copy=False)
        whitening = None if self.whitening is None else self.whitening.astype(dtype, copy=False)
        return replace(self, projection=projection, whitening=whitening)

    def mean_and_variance(self, block: Array, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Marginals of rows, not calibrated, from their kernel block (c, d) and prior variances (c,).

        Cost: about d² flops a row, twice that where 0 < s < 1.
        Hazard: a variance is a difference; rounding below zero is clamped to zero.
        """
        if self.projection is None:
            return block @ self.weights.astype(block.dtype), np.zeros(len(block))
        mean, squares = numerics.project(block, self.projection, self.projected_targets)
        if self.residual == 1.0:
            return mean, np.maximum(prior - squares, 0.0)
        if self.whitening is not None:
            _, explained = numerics.project(block, self.whitening, np.zeros(len(self.projected_targets)))
            squares += self.residual * np.maximum(prior - explained, 0.0)
        return mean, squares


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A Gaussian posterior of latent functions that share a kernel.

    h = k_I(x)ᵀ T β,  a = k(x, x) − |Tᵀ k_I(x)|²
    k_I the kernel with active_inputs.  All heads are served by one kernel block.
    Shapes: active_inputs (D, p) in the pass's type.
    """

    kernel: Kernel
    active_inputs: Array
    heads: tuple[Head, ...]

    witness_rows: ClassVar[int] = 16
    """Active inputs asked about when a saved model is checked; of every head some."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the arithmetic in a pass."""
        return self.active_inputs.dtype

    @property
    def starts(self) -> list[int]:
        """Where the inputs of each latent function begin among all; [0] where they share them."""
        return sorted({head.columns.start for head in self.heads})

    @property
    def training_bytes(self) -> int:
        """Bytes of training rows that predictions need: none beside the active inputs."""
        return 0

    def in_memory(self) -> Snapshot:
        """The same posterior with nothing left on disk: itself."""
        return self

    @cached_property
    def prepared(self) -> Prepared:
        """The kernel made ready for the active inputs: once in a process, for all blocks and threads."""
        return self.kernel.prepared(self.active_inputs)

    def __reduce__(self) -> tuple[type[Snapshot], tuple[Any, ...]]:
        """Sent to other processes without what each makes for itself."""
        return Snapshot, (self.kernel, self.active_inputs, self.heads)

    def to_record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """JSON and arrays for the disk; prediction does not need the training data, so they are not in it."""
        header: dict[str, Any] = {
            "kernel": self.kernel.to_json(),
            "columns": [[head.columns.start, head.columns.stop] for head in self.heads],
            "calibrations": [list(head.calibration) for head in self.heads],
            "residuals": [head.residual for head in self.heads],
        }
        arrays: dict[str, Any] = {"active_inputs": self.active_inputs}
        for number, head in enumerate(self.heads):
            if head.projection is not None:
                arrays[f"heads/{number}/projection"] = head.projection
            arrays[f"heads/{number}/projected_targets"] = head.projected_targets
            if head.whitening is not None:
                arrays[f"heads/{number}/whitening"] = head.whitening
        return header, arrays

    @staticmethod
    def from_record(header: dict[str, Any], arrays: dict[str, Any], standardizer: object) -> Snapshot:
        """The snapshot that was written; it sees standardised rows only."""
        residuals = header.get("residuals", [1.0] * len(header["columns"]))  # absent from the first models
        heads = tuple(
            Head(
                arrays.get(f"heads/{number}/projection"),
                arrays[f"heads/{number}/projected_targets"],
                slice(*columns),
                Calibration(*calibration),
                residual,
                arrays.get(f"heads/{number}/whitening"),
            )
            for number, (columns, calibration, residual) in enumerate(
                zip(header["columns"], header["calibrations"], residuals, strict=True)
            )
        )
        return Snapshot(kernel_from_json(header["kernel"]), arrays["active_inputs"], heads)

    def buffer(self, rows: int) -> Array | None:
        """Room for the kernel block of so many rows, which :meth:`marginals` can use again and again."""
        return np.empty((rows, len(self.active_inputs)), self.dtype)

    def astype(self, dtype: DTypeLike) -> Snapshot:
        """The same posterior for passes in another precision."""
        heads = tuple(head.astype(dtype) for head in self.heads)
        return Snapshot(self.kernel, self.active_inputs.astype(dtype, copy=False), heads)

    def marginals(
        self, features: Array, with_variance: bool = True, kernel_out: Array | None = None
    ) -> Marginals:
        """Latent mean and variance of standardised rows; ``kernel_out`` is room for the kernel block.

        Cost per row: 2 p D flops for the kernel, then D for the means alone, about d² a head with variances.
        Hazard: the variance is a difference; rounding below zero is clamped to zero.
        """
        block = self.prepared.block(features, out=kernel_out)
        means = np.empty((len(features), len(self.heads)))
        if not with_variance:
            for number, head in enumerate(self.heads):
                mean = block[:, head.columns] @ head.weights.astype(self.dtype)
                means[:, number] = head.calibration.mean_scale * mean + head.calibration.mean_offset
            return Marginals(means, None)
        variances = np.empty_like(means)
        prior = self.kernel.diagonal(features)
        for number, head in enumerate(self.heads):
            mean, variance = head.mean_and_variance(block[:, head.columns], prior)
            scale, offset, variance_scale, _ = head.calibration
            means[:, number] = scale * mean + offset
            variances[:, number] = variance_scale * variance
        return Marginals(means, variances)


def workspace_bytes(
    kernel: Kernel, rows: int, n_active: int, n_features: int, n_heads: int, itemsize: int
) -> int:
    """Temporary bytes of :meth:`Snapshot.marginals` for a block of rows."""
    block = rows * n_active * itemsize + kernel.tile_bytes(rows, n_active, n_features, itemsize)
    return block + numerics.workspace_bytes(rows, itemsize) + 16 * rows * (n_heads + 1)


def snapshot_bytes(
    kernel: Kernel, n_inputs: int, n_active: int, n_features: int, n_heads: int, itemsize: int
) -> int:
    """Bytes of a snapshot itself: ``n_inputs`` active inputs in all, ``n_active`` in each head."""
    inputs = n_inputs * n_features * itemsize + kernel.prepared_bytes(n_inputs, n_features, itemsize)
    return inputs + n_heads * (n_active * n_active * itemsize + 8 * n_active)
