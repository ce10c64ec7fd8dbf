"""What every kernel can do. Atoms inherit most of it; sums and products delegate to their parts."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.errors import ParameterError
from streamgp.kernels.parameters import (
    LOWER,
    UPPER,
    common_lengthscale_prior,
    feature_lengthscale_prior,
    log_normal_prior,
    positive,
    positive_or_many,
)
from streamgp.kernels.tiles import Prepared, Tiles, row_tiles, tile_rows
from streamgp.numerics.kernel_sweeps import mirror_lower

if TYPE_CHECKING:
    from streamgp.kernels.composite import Product, Sum


class Kernel(ABC):
    """A covariance function: a frozen value, equal to another if its family and parameters are.

    All learned parameters are positive; vectors of them hold their logarithms. Methods that are not abstract
    here are written for atoms whose diagonal is their variance.
    Shapes: left (c, p) and right (d, p) of the same dtype, float32 or float64; weights (c, d).
    """

    learned: ClassVar[tuple[str, ...]] = ("variance",)
    """Fields that are learned, variance first."""

    is_white: ClassVar[bool] = False
    """Whether different rows have nothing in common."""

    def __post_init__(self) -> None:
        for name in self.learned:
            check = positive_or_many if name == "lengthscale" else positive
            object.__setattr__(self, name, check(name, getattr(self, name)))

    # A sum is a kernel and a kernel can be added: the import must wait until both exist.
    def __add__(self, other: Kernel) -> Sum:
        from streamgp.kernels.composite import Sum

        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        from streamgp.kernels.composite import Product

        return Product((self, other)) if isinstance(other, Kernel) else NotImplemented

    # Parameters

    def _atoms(self) -> tuple[tuple[str, Kernel], ...]:
        """The atoms of which the kernel is made, each with the prefix of its parameters' names."""
        return (("", self),)

    def _with_values(self, values: Iterator[float]) -> Self:
        """The same kernel with parameters taken from the iterator, in order."""
        changes: dict[str, Any] = {}
        for name in self.learned:
            value = getattr(self, name)
            changes[name] = tuple(next(values) for _ in value) if isinstance(value, tuple) else next(values)
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the learned parameters, such as ``lengthscale[3]``, in the order of all vectors."""
        names: list[str] = []
        for prefix, atom in self._atoms():
            for name in atom.learned:
                value = getattr(atom, name)
                suffixes = [f"[{q}]" for q in range(len(value))] if isinstance(value, tuple) else [""]
                names += [prefix + name + suffix for suffix in suffixes]
        return tuple(names)

    @property
    def log_parameters(self) -> FloatArray:
        """Logarithms of the learned parameters."""
        values = [np.atleast_1d(getattr(atom, name)) for _, atom in self._atoms() for name in atom.learned]
        logs: FloatArray = np.log(np.concatenate(values))
        return logs

    @property
    def log_bounds(self) -> FloatArray:
        """Lower and upper bound of each log parameter, shape (n_parameters, 2): a millionth to a million."""
        return np.tile([math.log(LOWER), math.log(UPPER)], (len(self.parameter_names), 1))

    def with_log_parameters(self, vector: Floats) -> Self:
        """The same kernel with other parameters."""
        names = self.parameter_names
        if np.shape(vector) != (len(names),):
            raise ParameterError(
                f"log parameters have shape {np.shape(vector)}; {len(names)} are needed: {names}"
            )
        with np.errstate(over="ignore"):
            return self._with_values(iter(np.exp(np.asarray(vector, np.float64)).tolist()))

    def log_prior(self, n_features: int) -> tuple[float, FloatArray]:
        """Log density of the hyperpriors over the log parameters, and its gradient by them.

        log variance ~ N(−1, 1);  Gamma with mean 1 and 1 degree of freedom for lengthscale²/n_features where
        it is common to all features, for 1/lengthscale² where each has its own; densities over logarithms
        Source: [IVM2006] section 6.1.
        """
        terms = []
        for name, value in zip(self.parameter_names, self.log_parameters, strict=True):
            field = name.rpartition(".")[2]
            if field.startswith("lengthscale"):
                own = "[" in field
                terms.append(
                    feature_lengthscale_prior(value) if own else common_lengthscale_prior(value, n_features)
                )
            else:
                # The offset of a polynomial is not in the paper: its prior is centred on the usual 1.
                terms.append(log_normal_prior(value, 0.0 if field == "offset" else -1.0))
        return sum(term[0] for term in terms), np.array([term[1] for term in terms])

    def check_features(self, n_features: int) -> None:
        """Raise unless the kernel can be used with rows of so many features."""
        for _, atom in self._atoms():
            lengthscale = getattr(atom, "lengthscale", None)
            if isinstance(lengthscale, tuple) and len(lengthscale) != n_features:
                raise ParameterError(
                    f"{type(atom).__name__} has {len(lengthscale)} lengthscales, but the rows have "
                    f"{n_features} features; give one lengthscale, or one for each feature"
                )

    def to_json(self) -> dict[str, Any]:
        """Plain values for :func:`streamgp.kernels.kernel_from_json`."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
        return {"kind": type(self).__name__, **plain}

    @property
    def has_white_noise(self) -> bool:
        """Whether some part of it is white noise."""
        return any(atom.is_white for _, atom in self._atoms())

    # Values

    @abstractmethod
    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        """The kernel made ready for these right rows; ``inputs``: input gradients will be asked for."""

    def block(self, left: Floats, right: Floats, out: Floats | None = None) -> Floats:
        """Covariance between two sets of rows, without white noise even where rows are the same.

        out[i, j] = k(left[i], right[j])
        Shapes: (c, p), (d, p) → (c, d), in the dtype of left.  Cost: one matrix product and one sweep.
        """
        left, right = self._checked_pair(left, right)
        return self.prepared(right).block(left, out)

    def prepared(self, right: Floats) -> Prepared:
        """The kernel made ready for right rows, float32 or float64: for many blocks against the same ones."""
        self.check_features(right.shape[1])
        right = np.ascontiguousarray(right)
        return Prepared(self._tiles(right, inputs=False), right)

    def gram(self, rows: Floats) -> Floats:
        """Covariance among rows: symmetric to the last bit, with exact diagonal and white noise on it.

        Shapes: (c, p) → (c, c).
        """
        matrix = self.smooth_gram(rows)
        matrix.flat[:: len(matrix) + 1] += self.nugget(rows).astype(matrix.dtype)
        return matrix

    def smooth_gram(self, inputs: Floats) -> Floats:
        """Covariance of the function at inputs that are no rows: as :meth:`gram`, without white noise.

        Shapes: (m, p) → (m, m).
        """
        matrix = self.block(inputs, inputs)
        mirror_lower(matrix)
        np.fill_diagonal(matrix, self.smooth_diagonal(inputs))
        return matrix

    def diagonal(self, rows: Floats) -> FloatArray:
        """k(x, x) of each row, white noise included: shape (c,)."""
        return self.smooth_diagonal(rows) + self.nugget(rows)

    def smooth_diagonal(self, rows: Floats) -> FloatArray:
        """k(x, x) without white noise, what a block has where rows are equal: shape (c,)."""
        return np.full(len(rows), self.variance)  # type: ignore[attr-defined]

    def nugget(self, rows: Floats) -> FloatArray:
        """What white noise adds to the variance of each row: shape (c,)."""
        return np.zeros(len(rows))

    def workspace_bytes(self, rows: int, n_active: int, n_features: int, itemsize: int) -> int:
        """Upper bound of the temporary bytes that :meth:`block` allocates beside its result.

        For contiguous rows of one dtype; others are copied first.
        """
        prepared = self.prepared_bytes(n_active, n_features, itemsize)
        return prepared + self.tile_bytes(rows, n_active, n_features, itemsize)

    def prepared_bytes(self, n_active: int, n_features: int, itemsize: int) -> int:
        """Upper bound of the bytes that :meth:`prepared` keeps: rows and norms, twice if normalized."""
        return 2 * n_active * (n_features + 2) * itemsize + 64 * n_features

    def tile_bytes(self, rows: int, n_active: int, n_features: int, itemsize: int) -> int:
        """Upper bound of the temporary bytes of a block of a prepared kernel."""
        tile = min(rows, tile_rows(n_active, n_features, itemsize))
        # A scaled copy, norms; values to be combined, marks of refined pairs; vectors, casting buffers.
        return tile * (n_features + 2 + n_active) * itemsize + tile * n_active + 131_072

    # Gradients

    def parameter_gradient(self, left: Floats, right: Floats, weights: Floats) -> FloatArray:
        """Contract weights with the derivatives of the block by all log parameters at once.

        Σ_ij weights_ij ∂k(left_i, right_j)/∂log θ_q
        Shapes: (c, p), (d, p), (c, d) → (n_parameters,).
        Cost: as :meth:`block`, and a second matrix product if there is a lengthscale for each feature.
        """
        return self._contracted(left, right, weights, inputs=False).parameter_gradient()

    def input_gradient(self, left: Floats, right: Floats, weights: Floats) -> FloatArray:
        """Contract weights with the derivatives of the block by the right rows.

        result[j] = Σ_i weights_ij ∂k(left_i, right_j)/∂right_j
        Shapes: (c, p), (d, p), (c, d) → (d, p).  Cost: two matrix products.
        """
        return self._contracted(left, right, weights, inputs=True).input_gradient()

    def diagonal_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Σ_i weights_i ∂k(x_i, x_i)/∂log θ_q, white noise included: (c, p), (c,) → (n_parameters,)."""
        return self.smooth_diagonal_gradient(rows, weights) + self.nugget_gradient(rows, weights)

    def smooth_diagonal_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """The same without white noise."""
        gradient = np.zeros(len(self.parameter_names))
        gradient[0] = weights @ self.smooth_diagonal(rows)
        return gradient

    def nugget_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Σ_i weights_i ∂nugget(x_i)/∂log θ_q: (c, p), (c,) → (n_parameters,)."""
        return np.zeros(len(self.parameter_names))

    def smooth_diagonal_input_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """weights_i ∂k(x_i, x_i)/∂x_i, without white noise: (c, p), (c,) → (c, p)."""
        return np.zeros(rows.shape)

    def _contracted(self, left: Floats, right: Floats, weights: Floats, inputs: bool) -> Tiles:
        left, right = self._checked_pair(left, right)
        tiles = self._tiles(right, inputs)
        for rows in row_tiles(len(left), len(right), left.shape[1], left.itemsize):
            tiles.contract(left[rows], np.ascontiguousarray(weights[rows], left.dtype))
        return tiles

    def _checked_pair(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        dtype = left.dtype if left.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        if left.shape[1] != right.shape[1]:
            raise ParameterError(
                f"left rows have {left.shape[1]} features, but right rows have {right.shape[1]}"
            )
        self.check_features(left.shape[1])
        return np.ascontiguousarray(left, dtype), np.ascontiguousarray(right, dtype)
