"""Sums and products of kernels, flattened, so that their order of construction does not matter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamgp.arrays import FloatArray, Floats
from streamgp.errors import ParameterError
from streamgp.kernels.base import Kernel
from streamgp.kernels.composite_tiles import ProductTiles, SumTiles, total
from streamgp.kernels.tiles import Tiles


def _prefixed(parts: tuple[Kernel, ...]) -> tuple[tuple[str, Kernel], ...]:
    return tuple((f"{i}.{prefix}", atom) for i, part in enumerate(parts) for prefix, atom in part._atoms())


def _checked(kind: str, parts: Iterable[Kernel]) -> tuple[Kernel, ...]:
    checked = tuple(parts)
    for part in checked:
        if not isinstance(part, Kernel):
            raise ParameterError(f"{kind} got {part!r}; its parts must be kernels")
    if not checked:
        raise ParameterError(f"{kind} is empty; it needs at least one kernel")
    return checked


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """k(x, x') = Σ of its terms; written ``a + b``."""

    terms: tuple[Kernel, ...]

    learned = ()

    def __post_init__(self) -> None:
        """A term that is a sum is replaced by its terms."""
        terms = _checked("Sum", self.terms)
        flat = tuple(part for term in terms for part in (term.terms if isinstance(term, Sum) else (term,)))
        object.__setattr__(self, "terms", flat)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms)) if len(self.terms) > 1 else f"Sum({self.terms!r})"

    def _atoms(self) -> tuple[tuple[str, Kernel], ...]:
        return _prefixed(self.terms)

    def _with_values(self, values: Iterator[float]) -> Self:
        return type(self)(tuple(term._with_values(values) for term in self.terms))

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return SumTiles([term._tiles(right, inputs) for term in self.terms])

    def to_json(self) -> dict[str, Any]:
        """Plain values, those of every term among them."""
        return {"kind": "Sum", "terms": [term.to_json() for term in self.terms]}

    def prepared_bytes(self, n_active: int, n_features: int, itemsize: int) -> int:
        """Those of all terms together."""
        return sum(term.prepared_bytes(n_active, n_features, itemsize) for term in self.terms)

    def tile_bytes(self, rows: int, n_active: int, n_features: int, itemsize: int) -> int:
        """Those of all terms together."""
        return sum(term.tile_bytes(rows, n_active, n_features, itemsize) for term in self.terms)

    def smooth_diagonal(self, rows: Floats) -> FloatArray:
        """Sum over the terms."""
        return total([term.smooth_diagonal(rows) for term in self.terms])

    def nugget(self, rows: Floats) -> FloatArray:
        """Sum over the terms."""
        return total([term.nugget(rows) for term in self.terms])

    def smooth_diagonal_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """One term after the other."""
        return np.concatenate([term.smooth_diagonal_gradient(rows, weights) for term in self.terms])

    def nugget_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """One term after the other."""
        return np.concatenate([term.nugget_gradient(rows, weights) for term in self.terms])

    def smooth_diagonal_input_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Sum over the terms."""
        return total([term.smooth_diagonal_input_gradient(rows, weights) for term in self.terms])


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """k(x, x') = Π of its factors; written ``a * b``.

    White noise spreads: what a factor's nugget contributes to the product is nugget of the product,
    Π (diagonal + nugget) − Π diagonal. A product with a White factor is nothing else.
    """

    factors: tuple[Kernel, ...]

    learned = ()

    def __post_init__(self) -> None:
        """A factor that is a product is replaced by its factors."""
        factors = _checked("Product", self.factors)
        flat = tuple(
            part for one in factors for part in (one.factors if isinstance(one, Product) else (one,))
        )
        object.__setattr__(self, "factors", flat)

    def __repr__(self) -> str:
        if len(self.factors) == 1:
            return f"Product({self.factors!r})"
        return " * ".join(f"({one!r})" if isinstance(one, Sum) else repr(one) for one in self.factors)

    def _atoms(self) -> tuple[tuple[str, Kernel], ...]:
        return _prefixed(self.factors)

    def _with_values(self, values: Iterator[float]) -> Self:
        return type(self)(tuple(factor._with_values(values) for factor in self.factors))

    def _tiles(self, right: Floats, inputs: bool) -> Tiles:
        return ProductTiles([factor._tiles(right, inputs) for factor in self.factors])

    def to_json(self) -> dict[str, Any]:
        """Plain values, those of every factor among them."""
        return {"kind": "Product", "factors": [factor.to_json() for factor in self.factors]}

    def prepared_bytes(self, n_active: int, n_features: int, itemsize: int) -> int:
        """Those of all factors together."""
        return sum(factor.prepared_bytes(n_active, n_features, itemsize) for factor in self.factors)

    def tile_bytes(self, rows: int, n_active: int, n_features: int, itemsize: int) -> int:
        """Those of all factors together."""
        return sum(factor.tile_bytes(rows, n_active, n_features, itemsize) for factor in self.factors)

    def _variances(self, rows: Floats, without: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Diagonal and nugget of the product, or of the product of all factors but one."""
        diagonal, nugget = np.ones(len(rows)), np.zeros(len(rows))
        for place, factor in enumerate(self.factors):
            if place != without:
                smooth, noise = factor.smooth_diagonal(rows), factor.nugget(rows)
                # Not as a difference of products: a small nugget would lose its digits.
                nugget = diagonal * noise + nugget * (smooth + noise)
                diagonal = diagonal * smooth
        return diagonal, nugget

    def smooth_diagonal(self, rows: Floats) -> FloatArray:
        """Product of the factors' diagonals."""
        return self._variances(rows)[0]

    def nugget(self, rows: Floats) -> FloatArray:
        """All of the variance that has a white factor in it."""
        return self._variances(rows)[1]

    def smooth_diagonal_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Product rule, one factor after the other."""
        return np.concatenate(
            [
                factor.smooth_diagonal_gradient(rows, weights * self._variances(rows, without=place)[0])
                for place, factor in enumerate(self.factors)
            ]
        )

    def nugget_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Product rule: a factor's nugget meets all of the others, its diagonal only their nugget."""
        shares = []
        for place, factor in enumerate(self.factors):
            diagonal, nugget = self._variances(rows, without=place)
            by_nugget = factor.nugget_gradient(rows, weights * (diagonal + nugget))
            shares.append(by_nugget + factor.smooth_diagonal_gradient(rows, weights * nugget))
        return np.concatenate(shares)

    def smooth_diagonal_input_gradient(self, rows: Floats, weights: Floats) -> FloatArray:
        """Product rule, summed over the factors."""
        shares = [
            factor.smooth_diagonal_input_gradient(rows, weights * self._variances(rows, without=place)[0])
            for place, factor in enumerate(self.factors)
        ]
        return total(shares)
